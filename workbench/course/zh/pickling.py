"""Chinese for the exercises of notebook 5."""

from __future__ import annotations

from workbench.course.words import Words

WORDS: Words = {
    "When it can't be pickled": "无法序列化怎么办",
    "Find what can't be pickled": "找出无法序列化的部分（英文）",
    "Tasks and actors": "任务与 actor（英文）",
    # what can be guessed
    "one": "one（一个）",
    "two": "two（两个）",
    "three": "three（三个）",
    "the same lock": "the same lock（同一把锁）",
    "a lock of its own": "a lock of its own（它自己的锁）",
    "every worker": "every worker（每个工作进程）",
    "only the notebook": "only the notebook（只有笔记本）",
    "the same sign": "the same sign（同一个符号）",
    "two signs": "two signs（两个不同的符号）",
    # what is measured
    "locked in the notebook": "笔记本里的锁上了",
    "locked in the worker": "工作进程里的锁上了",
    "the worker's process": "工作进程的进程号",
    "the notebook's process": "笔记本的进程号",
    "read by the worker": "工作进程读到",
    "read on by the notebook": "笔记本接着读到",
    "seconds": "秒数",
    "the stopwatch itself can be stored": "stopwatch 本身能放进存储",
    "the first task": "第一个任务",
    "the second task": "第二个任务",
    # find_it
    "Nobody has to search. Which magic finds all that can't be pickled?": (
        "不必一个一个去找。哪个魔法命令能找出所有无法序列化的部分？"
    ),
    "`%inspect shelf` says the path first, from `shelf` to the part.": (
        "`%inspect shelf` 的结果里，最前面就是从 `shelf` 到那个部分的路径。"
    ),
    'In the cell right above this check, write `culprit = "..."`: between the quotes the whole '
    "path that `%inspect shelf` shows, to its last bracket.": (
        '在这个检查上方的单元格里写 `culprit = "..."`，引号里是 `%inspect shelf` 给出的完整路径'
        "，一直写到最后一个方括号。"
    ),
    "`shelf` can be stored now: run the cell that makes it again, and say which part could not.": (
        "现在 `shelf` 可以放进存储了：请重新运行创建它的单元格，再写出当时是哪个部分不行。"
    ),
    "Yes: there is a {type} at `shelf{path}`, and all else can be pickled.": (
        "对：`shelf{path}` 是一个 {type}，其余部分都可以序列化。"
    ),
    "`culprit` is of type {type}: write the path as text, in quotes.": (
        "`culprit` 的类型是 {type}：请把路径写成文本，放在引号里。"
    ),
    "`culprit` is no path: a path begins with `shelf`, then come brackets.": (
        "`culprit` 不是路径：路径以 `shelf` 开头，后面是方括号。"
    ),
    "It is in `shelf`, but `shelf` as a whole is more than the one part.": (
        "它在 `shelf` 里，但整个 `shelf` 不只是那一部分。"
    ),
    "`home` is no actor of the class `Home`.": "`home` 不是 `Home` 类的 actor。",
    "It is in `shelf{path}`, but that is more than the one part.": (
        "它就在 `shelf{path}` 里面，但这个路径还不够具体。"
    ),
    "What is at `shelf{path}` can be pickled, or isn't there.": (
        "`shelf{path}` 可以序列化，或者根本不存在。"
    ),
    # lock_in_a_class
    "Which part of `logbook` fails? What has to come back, and what can be made anew?": (
        "`logbook` 的哪个部分不行？哪些必须取回来，哪些可以重新创建？"
    ),
    "`__reduce__` returns two things: the class, and a tuple of the arguments to make it with. "
    "Then `%put logbook`.": (
        "`__reduce__` 返回两样东西：这个类，以及创建对象所需的参数元组。然后运行 `%put logbook`。"
    ),
    "In the cell right above this check, give the class `def __reduce__(self):` with `return "
    "Logbook, (self.notes,)`, and write `%put logbook` as the last line.": (
        "在这个检查上方的单元格里，给类加上 `def __reduce__(self):`，内容是 `return Logbook, "
        "(self.notes,)`，并把 `%put logbook` 写在最后一行。"
    ),
    "`logbook` can be pickled now, but isn't in the store yet.": (
        "现在 `logbook` 可以序列化了，但还没有存进去。"
    ),
    "`{path}` can't be pickled: {why}.": "`{path}` 无法序列化：{why}。",
    "Your `{name}` would come back right now. The stored one is an older one, which doesn't: "
    "`%put {name}` stores yours.": (
        "你现在的 `{name}` 能正确地取回来。存储里的是旧的，还不行：运行 `%put {name}` 存入新的。"
    ),
    "`{name}` can be stored, but not built again: {error}": (
        "`{name}` 能存进去，但无法重新创建：{error}"
    ),
    "The logbook that comes back has {count} notes; yours has {all}.": (
        "取回来的日志有 {count} 条记录，你的有 {all} 条。"
    ),
    "The logbook that comes back has all notes, but no lock.": "取回来的日志有全部记录，但没有锁。",
    "The logbook that comes back has all {count} notes, and a lock of its own.": (
        "取回来的日志有全部 {count} 条记录，还有一把自己的锁。"
    ),
    # connection
    "What does another process need to open the same database?": (
        "另一个进程要打开同一个数据库，需要知道什么？"
    ),
    "`packed` can return the address of the file, and `unpacked` a new connection to it: "
    "`sqlite3.connect(data)`.": (
        "`packed` 可以返回文件的路径，`unpacked` 则返回一个新的连接：`sqlite3.connect(data)`。"
    ),
    "In the cell right above this check, write `return str(database)` in `packed`, and `return "
    "sqlite3.connect(data)` in `unpacked`.": (
        "在这个检查上方的单元格里，`packed` 中写 `return str(database)`，`unpacked` 中写 `return "
        "sqlite3.connect(data)`。"
    ),
    "What comes back is {value}, no connection.": "取回来的是 {value}，不是数据库连接。",
    "What comes back is the notebook's own connection; a worker has none.": (
        "取回来的是笔记本自己的连接，而工作进程并没有它。"
    ),
    "A connection comes back, but the signs can't be read from it: {error}.": (
        "取回来的是连接，但从中读不到那些符号：{error}。"
    ),
    "`signs` is of type {type}, and no connection: run the notebook's second cell again.": (
        "`signs` 的类型是 {type}，不是数据库连接：请重新运行本笔记本的第二个代码单元格。"
    ),
    "Your `signs` can't be read ({error}): run the notebook's second cell again.": (
        "你的 `signs` 无法读取（{error}）：请重新运行本笔记本的第二个代码单元格。"
    ),
    "A connection comes back, but to another database, with {rows} signs.": (
        "取回来的是连接，但连到了另一个数据库，里面有 {rows} 个符号。"
    ),
    "A new connection comes back, and finds all {rows} signs.": (
        "取回来的是一个新连接，全部 {rows} 个符号都能查到。"
    ),
    # in_its_place
    "The class `Recorder` stays as it is. What can you store in place of `recorder`?": (
        "`Recorder` 类保持原样。可以存入什么来代替 `recorder`？"
    ),
    "A small class of yours has `recorder` inside. Its `__reduce__` says how to make a "
    "`Recorder`: `Recorder, (self.recorder.notes,)`.": (
        "写一个小类，把 `recorder` 放在里面。它的 `__reduce__` 说明怎样创建 `Recorder`："
        "`Recorder, (self.recorder.notes,)`。"
    ),
    "In the cell right above this check, write a class `Parcel` whose `__init__` keeps "
    "`recorder`, and whose `__reduce__` returns `Recorder, (self.recorder.notes,)`; then `parcel "
    "= Parcel(recorder)`, above `%put parcel`.": (
        "在这个检查上方的单元格里写一个类 `Parcel`：`__init__` 保存 `recorder`，`__reduce__` 返回"
        " `Recorder, (self.recorder.notes,)`；然后在 `%put parcel` 上面写 `parcel = "
        "Parcel(recorder)`。"
    ),
    "The store's `parcel` is still `...`: the last `%put parcel` failed, or didn't run.": (
        "存储里的 `parcel` 还是 `...`：上一次 `%put parcel` 失败了，或者没有运行。"
    ),
    "What comes back is of type {type}, and not a {kind}.": (
        "取回来的对象是 {type} 类型，不是 {kind}。"
    ),
    "A {kind} comes back, but with other notes.": "取回来的是 {kind}，但记录不一样。",
    "A {kind} comes back. But now every {kind} can be stored: you changed the class, or "
    "registered it (`wb.deregister_serializer({kind})` undoes that). This was about one object.": (
        "取回来的是 {kind}。不过现在每个 {kind} 都能放进存储了：你改了这个类，或者注册了它（"
        "`wb.deregister_serializer({kind})` 可以取消注册）。这里要求的只是一个对象。"
    ),
    "`parcel` is of type {type}; what comes back is a {kind}, with its notes.": (
        "`parcel` 的类型是 {type}，取回来的是 {kind}，记录都在。"
    ),
    # a_home
    "Where does `home` live now? Who else could call it?": (
        "`home` 现在在哪个进程里？还有谁能调用它？"
    ),
    "`@wb.remote` above the class makes it an actor's; `Home.remote()` starts one.": (
        "在类的上面写 `@wb.remote`，它就成了 actor 类；`Home.remote()` 启动一个 actor。"
    ),
    "In the cell right above this check, write `@wb.remote` above `class Home:`, and `home = "
    "Home.remote()` as the last line.": (
        "在这个检查上方的单元格里，在 `class Home:` 上面写 `@wb.remote`，最后一行写 `home = "
        "Home.remote()`。"
    ),
    "`home` is of type {type}, in your kernel: no worker can call it.": (
        "`home` 是你的内核里的一个 {type} 对象：没有工作进程能调用它。"
    ),
    "`home` is the class. No actor runs yet: who starts one?": (
        "`home` 是类本身，还没有 actor 在运行：怎样启动一个？"
    ),
    "`home` is an actor, but after two calls of `add` it counts {added} more: is there a new "
    "database in each call?": (
        "`home` 是 actor，但调用两次 `add` 之后，计数只增加了 {added}：是不是每次调用都新建了一个"
        "数据库？"
    ),
    "`home` is an actor: its one database has counted both calls of `add`.": (
        "`home` 是 actor：唯一的数据库记下了两次 `add` 调用。"
    ),
}
