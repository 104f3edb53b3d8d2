// Package terminal is the screen and the keyboard of the commands: a line editor, words that wrap,
// tables that fit the width.
//
// It measures text as a terminal shows it. A cluster (a letter with its marks, an emoji of several
// code points) is one step of the cursor and takes no, one or two columns. The package opens and
// closes nothing and sets no modes: the caller puts the terminal into raw mode for Editor.Line. An
// Editor, a Wrapper and a Tabs each belong to one goroutine.
package terminal
