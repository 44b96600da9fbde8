"""%undo and %checkout: the notebook's variables as of an earlier cell."""

from __future__ import annotations

from IPython.core.magic import line_magic, magics_class
from IPython.core.magic_arguments import argument

from workbench.ipython.arguments import magic_arguments, parse, unquoted
from workbench.ipython.notebook import NotebookMagics


@magics_class
class CheckpointMagics(NotebookMagics):
    @magic_arguments()
    @line_magic
    def undo(self, line: str) -> None:
        """Take back what the last cell did to the variables.

        Needs `%workbench keep`. Again: the cell before. What a cell did elsewhere stays: files, the
        network, what modules and other objects hold.
        """
        parse(self.undo, line)
        print(self._notebook.keeping.undo())

    @magic_arguments()
    @argument("cell", type=unquoted, help="its number, or the name of a branch")
    @line_magic
    def checkout(self, line: str) -> None:
        """Set the variables to what they were after a cell.

        Needs `%workbench keep`. What runs next follows that cell; to be able to come back by a
        name, make a branch first: `%workbench branch NAME`.
        """
        print(self._notebook.keeping.checkout(parse(self.checkout, line).cell))
