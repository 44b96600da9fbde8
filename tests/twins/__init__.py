"""`make twins`: random programs of cells (`programs`) run once in a plain kernel, and once with
some of the cells under `%%remote --wait`. Both must show the same and leave the same notebook
(`looks` describes it there), or the cell says what differs (`run`)."""
