"""Chinese for the exercises of notebook 2."""

from __future__ import annotations

from workbench.course.words import Words

WORDS: Words = {
    "Is it a copy?": "是副本吗？",
    "Memory: where an object lies": "内存：对象在哪里（英文）",
    "What is read where it lies": "哪些数据可以就地读取（英文）",
    "Share data between notebooks": "在笔记本之间共享数据（英文）",
    # one_copy
    "Where does `measure.where(futures)` say that it lies? An inode of 0 is private memory.": (
        "`measure.where(futures)` 说它在哪里？inode 为 0 就是私有内存。"
    ),
    "`%put --replace x` has the variable show what is stored, and so has `%get x`.": (
        "`%put --replace x` 会让变量直接指向存储里的数据，`%get x` 也会。"
    ),
    "In the cell right above this check, write `%put --replace futures`.": (
        "在这个检查上面的单元格里写 `%put --replace futures`。"
    ),
    "Your kernel has no variable `plan` now: run the cell that makes it, above.": (
        "你的内核里现在没有变量 `plan`：请运行上面创建它的单元格。"
    ),
    "Your kernel has no variable `futures` any more.": "你的内核里已经没有变量 `futures` 了。",
    "`futures` is a ref: it takes no memory, but it isn't the numbers either.": (
        "`futures` 现在是一个引用：它不占内存，但也不是那些数。"
    ),
    "`futures` has {size} of its own, and the store has as much.": (
        "`futures` 自己占用 {size}，存储里还有同样大的一份。"
    ),
    "`futures` shows the store's {size}: inode {inode}, offset {offset}.": (
        "`futures` 看到的就是存储里的 {size}：inode {inode}，偏移量 {offset}。"
    ),
    # own_copy
    "Read the note below the error: it says what can be done where the line failed.": (
        "请读错误信息下面的说明：它告诉你在出错的那一行可以怎么做。"
    ),
    "`.copy()` makes an array of the worker's own. Which name has it, and which is changed?": (
        "`.copy()` 会生成工作进程自己的数组。它叫什么名字？被修改的又是哪一个？"
    ),
    "In the cell right above this check, write `mine = futures.copy()` first, and then `mine` "
    "in place of `futures` in all lines below it.": (
        "在这个检查上面的单元格里，先写 `mine = futures.copy()`，再把它下面各行的 `futures` "
        "都换成 `mine`。"
    ),
    "The first row of the store's `futures` is halved. Run the notebook's second cell and "
    "`%put futures` to have it back.": (
        "存储里 `futures` 的第一行已经减半了。请重新运行本笔记本的第二个代码单元格和 "
        "`%put futures`，把它恢复原样。"
    ),
    "`mean_worth` is {found:.0f}, as if the first month wasn't bad.": (
        "`mean_worth` 是 {found:.0f}，看起来第一个月并没有变差。"
    ),
    "`mean_worth` is {found:.0f}: the first month was halved {times} times. The `futures` of your "
    "notebook are those of the store: run the cell above once more, and halve the first month "
    "once.": (
        "`mean_worth` 是 {found:.0f}：第一个月被减半了 {times} 次。你的笔记本里的 `futures` "
        "就是存储里的那一份：请把上面的单元格再运行一次，并且只把第一个月减半一次。"
    ),
    "`mean_worth` is {found:.0f}: the first month was halved {times} times. The `futures` of your "
    "notebook aren't those of the store. (A cell on a worker that assigns a name assigns it in "
    "your notebook, too.) `%get futures` brings the stored ones back; then run the cell above once "
    "more.": (
        "`mean_worth` 是 {found:.0f}：第一个月被减半了 {times} 次。你的笔记本里的 `futures` "
        "不是存储里的那一份。（工作进程上的单元格给一个名字赋值，也就在你的笔记本里给它赋了值。）"
        "`%get futures` 会取回存储里的那一份，然后请把上面的单元格再运行一次。"
    ),
    "`mean_worth` is {found:.0f}; half of {whole:.0f} was to come out.": (
        "`mean_worth` 是 {found:.0f}，而结果应当是 {whole:.0f} 的一半。"
    ),
    "`mean_worth` is {found:.0f}, as with a first month halved once, and the store's first row is "
    "as it was.": (
        "`mean_worth` 是 {found:.0f}，正是第一个月只减半一次的结果，而存储里的第一行没有变。"
    ),
    # put_again
    "`wb.get` only reads. What stored `plan` the first time?": (
        "`wb.get` 只会读取。第一次是什么命令把 `plan` 存进去的？"
    ),
    "The same name can be stored again; from then on it means the new object.": (
        "同一个名字可以再存一次，从那以后它就指新的对象。"
    ),
    "In the cell right above this check, write `%put plan`.": (
        "在这个检查上面的单元格里写 `%put plan`。"
    ),
    "Your own `plan` is the old one again.": "你自己的 `plan` 又变回旧的了。",
    "The store's `plan` has {stored} months, and yours has {months}.": (
        "存储里的 `plan` 是 {stored} 个月，你的是 {months} 个月。"
    ),
    "The store's `plan` has {months} months, as yours.": (
        "存储里的 `plan` 是 {months} 个月，和你的一样。"
    ),
    # shareable
    "Which of the kinds above were shared? Which of them has numbers only?": (
        "上面哪几种数据是共享的？其中哪一种只装数值？"
    ),
    "`np.array(months)` makes an array of the list, and `%put months` stores that.": (
        "`np.array(months)` 把列表变成数组，`%put months` 再把它存进去。"
    ),
    "In the cell right above this check, put `months = np.array(months)` above `%put months`.": (
        "在这个检查上面的单元格里，把 `months = np.array(months)` 写在 `%put months` 上面。"
    ),
    "The store's `months` is a list: each reading builds {count} new objects.": (
        "存储里的 `months` 是列表：每读一次都要新建 {count} 个对象。"
    ),
    "Two readings of `months` have no byte in common.": (
        "两次读到的 `months` 没有一个字节是共用的。"
    ),
    "Two readings of `months` share memory, but the numbers are others.": (
        "两次读到的 `months` 共用内存，但里面的数不对。"
    ),
    "Two readings of `months` show the same {size}: inode {inode}, offset {offset}.": (
        "两次读到的 `months` 是同一块 {size}：inode {inode}，偏移量 {offset}。"
    ),
    # what the notebook measures itself
    "pages of `mine`": "`mine` 的内存页数",
    "pages copied": "复制了的页数",
    "the number in `mine`": "`mine` 里的数",
    "the number in the store": "存储里的数",
    "months in your kernel's `plan`": "内核里 `plan` 的月数",
    "months in the store": "存储里的月数",
}
