// Package terminal is the screen and the keyboard of the commands: a line editor, words that wrap,
// tables that fit the width.
//
// It measures text as a terminal shows it: a cluster (a letter with its marks, an emoji of several
// code points) is one step of the cursor and takes none, one or two columns. It opens and closes
// nothing and sets no modes: the caller puts the terminal into raw mode for Editor.Line. Nothing
// here may be used from two goroutines at once.
package terminal
