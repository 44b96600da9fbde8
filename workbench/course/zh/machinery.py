"""Chinese for what reveals, checks and measurements say in every lesson."""

from __future__ import annotations

from workbench.course.words import Words

WORDS: Words = {
    # reveals
    "Make a guess first.": "请先猜一猜。",
    "Replace the three dots after `{name} =`, and run the cells from there again.": (
        "请把 `{name} =` 后面的三个点换成你的答案，然后从那里开始重新运行。"
    ),
    "Replace the three dots after `{name} =`, run that cell, and then this one again.": (
        "请把 `{name} =` 后面的三个点换成你的答案，运行那个单元格，然后再运行这一个。"
    ),
    "There is no variable `{name}` now: run the cell with your guess, and then this one again.": (
        "现在没有变量 `{name}`：请运行写有你的答案的单元格，然后再运行这一个。"
    ),
    "There is no variable `{name}` now: run the cell with your guess, and those below it.": (
        "现在没有变量 `{name}`：请运行写有你的猜测的单元格，以及它下面的单元格。"
    ),
    "Nothing was measured yet.": "还没有测量。",
    "Run the cells between your guess and this one, and then this one again.": (
        "请先运行你的猜测与本单元格之间的单元格，再重新运行本单元格。"
    ),
    "That is no guess yet.": "这还不是一个有效的猜测。",
    "You guessed: {guess}.": "你猜的是：{guess}。",
    "Measured: {answer}. Right.": "实测：{answer}。猜对了。",
    "Measured: {answer}.": "实测：{answer}。",
    "Put these in an order: {choices}.": "请把这几项排好顺序：{choices}。",
    "The guess is one of these: {choices}.{meant}": "请从这些词里选一个：{choices}。{meant}",
    " Did you mean {word}?": "你是想写 {word} 吗？",
    "The guess is a number, as {example} is.": "请猜一个数，例如 {example}。",
    "The guess is a number: write it without quotes.": "请猜一个数，不要加引号。",
    "The guess is a number: write it without quotes, and without a unit.": (
        "请猜一个数，不要加引号，也不要写单位。"
    ),
    "But this session runs on a cluster: each machine has a copy of its own, which its processes "
    "share; and on Dask each process has its own of what is below 1 MB.": (
        "但这个会话运行在集群上：每台机器各有一份副本，由那台机器上的进程共享；"
        "而在 Dask 上，小于 1 MB 的数据每个进程各有一份。"
    ),
    "But this session runs on a cluster, where this may be otherwise.": (
        "但这个会话运行在集群上，那里可能有所不同。"
    ),
    "But this session runs on a cluster. What its store keeps for the next put isn't known here, "
    "so that what is let go of counts as available.": (
        "但这个会话运行在集群上。存储为下一次 put 保留了多少内存，在这里无从得知，"
        "因此放掉的内存都算作 available。"
    ),
    "The guess is True or False.": "请猜 True 或 False。",
    "shared": "shared（共享）",
    "copy": "copy（副本）",
    "same object": "same object（同一个对象）",
    "another object": "another object（另一个对象）",
    "store": "store（存储）",
    "kernel": "kernel（内核）",
    "both": "both（两者都是）",
    "neither": "neither（两者都不是）",
    # measurements
    "process": "进程号",
    "address": "地址",
    "shared file (inode)": "共享文件（inode）",
    "offset in that file": "文件内的偏移量",
    "pages copied on write": "因写入而复制的内存页",
    "first": "第一个",
    "second": "第二个",
    "none: private memory": "无：私有内存",
    "{own} of {all}": "{all} 页中的 {own} 页",
    "id": "id",
    "before": "之前",
    "after": "之后",
    "this process's own memory": "本进程的私有内存",
    "objects in the store": "存储中的对象",
    "time": "用时",
    "in the store": "存储中占用",
    "nothing of it": "已经没有了",
    "kept by": "保留它的是",
    # checks
    "Right.": "正确。",
    "Almost.": "差一点。",
    "Not yet.": "还没有完成。",
    "Not begun.": "尚未开始。",
    "hint {number}": "提示 {number}",
    "read": "参阅",
    "{lesson}: {done} of {all} exercises done": "{lesson}：已完成 {done}/{all} 道练习",
    "No session runs. Start one by `%workbench start`, and run the cells again.": (
        "没有正在运行的会话。`%workbench start` 会启动一个，然后请重新运行本笔记本的单元格。"
    ),
    "This kernel has no session. After a restart, run the cell with `%load_ext workbench` again, "
    "and then the exercise's cells.": (
        "这个内核还没有会话。重启之后，请先重新运行含有 `%load_ext workbench` 的单元格，"
        "再运行本练习的单元格。"
    ),
    "There is no variable `{name}` now: run the exercise's cell, above this check.": (
        "现在没有变量 `{name}`：请运行上方本练习的单元格。"
    ),
    "There is no variable `{name}` now: run the cell above that makes it.": (
        "现在没有变量 `{name}`：请运行上方创建它的单元格。"
    ),
    "Wait.": "请稍等。",
    "`{name}` has no value yet: its cell waits for you.": (
        "`{name}` 还没有值：对应的单元格等你来填写。"
    ),
    "The last background cell that makes `{name}` has failed.": (
        "最近一个计算 `{name}` 的后台单元格出错了。"
    ),
    "The last background cell that makes `{name}` was stopped.": (
        "最近一个计算 `{name}` 的后台单元格被停止了。"
    ),
    "The cell that makes `{name}` hasn't begun: ask again when it is done.": (
        "计算 `{name}` 的单元格还没有开始：等它运行完再检查。"
    ),
    "The cell that makes `{name}` is still running: ask again when it is done.": (
        "计算 `{name}` 的单元格还在运行：等它运行完再检查。"
    ),
    "No background cell has assigned `{name}`.": "没有哪个后台单元格给 `{name}` 赋过值。",
    "The store has no `{name}`: `%put {name}` stores it.": (
        "存储里没有 `{name}`：运行 `%put {name}` 就能存进去。"
    ),
    "`{name}` isn't ready yet: ask again.": "`{name}` 还没有准备好：请过一会儿再检查。",
    "`{name}` is the id of no object that was here: run the cells above again.": (
        "这里没有过 id 为 `{name}` 的对象：请重新运行上面的单元格。"
    ),
    "`{name}` has another shape than asked for ({kind}: {error}).": (
        "`{name}` 的形式与要求的不同（{kind}: {error}）。"
    ),
    "This can't be checked: {kind}: {error}": "无法检查：{kind}: {error}",
}
