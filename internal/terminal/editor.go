package terminal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ErrInterrupted is Ctrl-C: what was typed is given up.
var ErrInterrupted = errors.New("terminal: interrupted")

// What asks a terminal to mark pastes, and what ends that.
const (
	PasteOn  = "\x1b[?2004h"
	PasteOff = "\x1b[?2004l"
)

// History is what was typed before: At(0) is the newest.
type History interface {
	Len() int
	At(i int) string
	Add(s string)
}

// Options are what an Editor is made with. In and Out are needed; the zero value of the rest leaves
// it out.
type Options struct {
	In      io.Reader
	Out     io.Writer
	Size    func() (columns, rows int)        // asked before each drawing; nil or zeros: 80 × 24
	History History                           // nil: none
	Edit    func(text string) (string, error) // Ctrl-G: the text in an editor, and what became of it
	Suspend func()                            // Ctrl-Z: stops the program, and returns when it goes on

	// Tab: what may stand in the place of before from the byte from on. before is the text up to
	// the cursor. What ends with a slash may go on.
	Complete func(before string) (from int, list []string)
}

// Editor reads text that a person types, of one line or several, with the keys people know from
// shells. It reads ahead: what was typed before a line was asked for is the next one.
type Editor struct {
	o       Options
	in      *bufio.Reader
	prompt  string
	more    string
	text    string
	pos     int // in text, between two clusters
	yanked  string
	drawn   int    // the cursor's row below the first that is drawn
	at      int    // which line of the history is shown, -1: none
	draft   string // what was typed before the history was looked at
	quick   bool   // what is on the screen ends with the text, and its last row has room
	column  int    // the cursor's, where quick
	columns int    // of the last drawing
}

// NewEditor makes one.
func NewEditor(o Options) *Editor {
	return &Editor{o: o, in: bufio.NewReader(o.In)}
}

// Line reads until Enter. The terminal must be raw, and stays so. prompt stands before the first
// line and more before each further one: a paste, Alt-Enter and an editor bring several. It fails
// with io.EOF for Ctrl-D in an empty text, with ErrInterrupted, and with what reading fails with;
// the text typed until then comes with it.
func (e *Editor) Line(prompt, more string) (string, error) {
	e.prompt, e.more, e.text, e.pos, e.at, e.draft, e.drawn = prompt, more, "", 0, -1, "", 0
	e.draw()
	for {
		done := false
		k, err := e.key()
		if err == nil {
			done, err = e.press(k)
		}
		if !done && err == nil {
			continue
		}
		e.leave()
		if err == nil && e.o.History != nil {
			e.o.History.Add(e.text)
		}
		return e.text, err
	}
}

// press does what a key asks for. done ends the line.
func (e *Editor) press(k key) (done bool, err error) {
	lineStart := strings.LastIndexByte(e.text[:e.pos], '\n') + 1
	lineEnd := len(e.text)
	if i := strings.IndexByte(e.text[e.pos:], '\n'); i >= 0 {
		lineEnd = e.pos + i
	}
	switch k.name {
	case char:
		if e.quick && k.rune >= ' ' && k.rune < 0x7f && e.column+1 < e.columns {
			e.text += string(k.rune)
			e.pos = len(e.text)
			e.column++
			e.write(string(k.rune))
			return false, nil
		}
		e.insert(string(k.rune))
	case newline:
		e.insert("\n")
	case enter:
		return true, nil
	case eof:
		if e.text == "" {
			return false, io.EOF
		}
		e.cut(e.pos, after(e.text, e.pos), false)
	case interrupt:
		return false, ErrInterrupted
	case left, right, wordLeft, wordRight, home, end, up, down:
		e.move(k, lineStart, lineEnd)
	case backspace, del, deleteWord, eraseWord, eraseBlank, eraseLine, deleteRest:
		e.erase(k, lineStart, lineEnd)
	case yank:
		e.insert(e.yanked)
	case clearScreen:
		e.write("\x1b[H\x1b[2J")
		e.drawn = 0
	case paste:
		text, ok, err := e.pasted()
		if err != nil {
			return false, err
		}
		if !ok {
			return false, ErrInterrupted
		}
		e.insert(text)
	case search:
		return e.searched()
	case complete:
		e.completed()
	case editor:
		e.edited()
	case suspend:
		if e.o.Suspend != nil {
			e.leave()
			e.o.Suspend()
			e.drawn = 0
		}
	default:
		return false, nil
	}
	e.draw()
	return false, nil
}

// move puts the cursor elsewhere, or in another line of the history.
func (e *Editor) move(k key, lineStart, lineEnd int) {
	switch k.name {
	case left:
		e.pos = before(e.text, e.pos)
	case right:
		e.pos = after(e.text, e.pos)
	case wordLeft:
		e.pos = e.wordBack()
	case wordRight:
		e.pos = e.wordOn()
	case home:
		e.pos = lineStart
	case end:
		e.pos = lineEnd
	case up:
		if lineStart == 0 {
			e.remember(e.at + 1)
		} else {
			e.pos = e.sameColumn(strings.LastIndexByte(e.text[:lineStart-1], '\n')+1, lineStart)
		}
	case down:
		if lineEnd == len(e.text) {
			e.remember(e.at - 1)
		} else {
			e.pos = e.sameColumn(lineEnd+1, lineStart)
		}
	}
}

// erase cuts text away around the cursor.
func (e *Editor) erase(k key, lineStart, lineEnd int) {
	switch k.name {
	case backspace:
		e.cut(before(e.text, e.pos), e.pos, false)
	case del:
		e.cut(e.pos, after(e.text, e.pos), false)
	case deleteWord:
		e.cut(e.pos, e.wordOn(), true)
	case eraseWord:
		e.cut(e.wordBack(), e.pos, true)
	case eraseBlank:
		kept := strings.TrimRightFunc(e.text[:e.pos], unicode.IsSpace)
		e.cut(strings.LastIndexFunc(kept, unicode.IsSpace)+1, e.pos, true)
	case eraseLine:
		e.cut(lineStart, e.pos, true)
	case deleteRest:
		e.cut(e.pos, lineEnd, true)
	}
}

func (e *Editor) insert(s string) {
	e.text = e.text[:e.pos] + s + e.text[e.pos:]
	e.pos += len(s)
}

// cut takes text out. What is kept can be yanked.
func (e *Editor) cut(from, to int, keep bool) {
	if keep && to > from {
		e.yanked = e.text[from:to]
	}
	e.text = e.text[:from] + e.text[to:]
	e.pos = from
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }

func (e *Editor) wordBack() int {
	s := strings.TrimRightFunc(e.text[:e.pos], func(r rune) bool { return !inWord(r) })
	return len(strings.TrimRightFunc(s, inWord))
}

func (e *Editor) wordOn() int {
	s := strings.TrimLeftFunc(e.text[e.pos:], func(r rune) bool { return !inWord(r) })
	return len(e.text) - len(strings.TrimLeftFunc(s, inWord))
}

// sameColumn is the place in the line that begins at to which stands where the cursor stands in the
// line that begins at from.
func (e *Editor) sameColumn(to, from int) int {
	want := Width(e.text[from:e.pos])
	pos := to
	for w := 0; w < want && pos < len(e.text) && e.text[pos] != '\n'; {
		next := after(e.text, pos)
		w += Width(e.text[pos:next])
		pos = next
	}
	return pos
}

// remember shows a line of the history, or, for -1, what was typed before it was looked at.
func (e *Editor) remember(i int) {
	if e.o.History == nil || i < -1 || i >= e.o.History.Len() {
		return
	}
	if e.at == -1 {
		e.draft = e.text
	}
	e.at = i
	if e.text = e.draft; i >= 0 {
		e.text = clean(e.o.History.At(i))
	}
	e.pos = len(e.text)
}

// searched looks through the history for what is typed, newest first: Ctrl-R goes on to older
// lines, Ctrl-S back to newer ones. Enter sends the line, Ctrl-C and Ctrl-G give the search up, any
// other key keeps the line and does what it does.
func (e *Editor) searched() (done bool, err error) {
	if e.o.History == nil {
		return false, nil
	}
	text, pos, prompt := e.text, e.pos, e.prompt
	query, found := "", -1
	find := func(from, step int) {
		for i := from; i >= 0 && i < e.o.History.Len(); i += step {
			if line := clean(e.o.History.At(i)); query != "" && strings.Contains(line, query) {
				found, e.text, e.pos = i, line, strings.Index(line, query)
				return
			}
		}
		e.write("\a")
	}
	finish := func() { e.prompt = prompt }
	for {
		e.prompt = "(search) '" + query + "': "
		e.draw()
		k, err := e.key()
		if err != nil {
			finish()
			return false, err
		}
		switch k.name {
		case char:
			query += string(k.rune)
			find(max(found, 0), 1)
		case backspace:
			_, n := utf8.DecodeLastRuneInString(query)
			if query, found = query[:len(query)-n], -1; query == "" {
				e.text, e.pos = text, pos
			} else {
				find(0, 1)
			}
		case unknown:
		case search:
			find(found+1, 1)
		case searchForward:
			find(found-1, -1)
		case interrupt, editor:
			e.text, e.pos = text, pos
			finish()
			e.draw()
			return false, nil
		default:
			if found >= 0 && e.at == -1 {
				e.draft = text
			}
			if found >= 0 {
				e.at = found
			}
			finish()
			e.draw()
			if k.name == escape {
				return false, nil
			}
			return e.press(k)
		}
	}
}

// edited gives the text to the caller's editor.
func (e *Editor) edited() {
	if e.o.Edit == nil {
		return
	}
	e.leave()
	text, err := e.o.Edit(e.text)
	e.drawn = 0
	if err != nil {
		e.write(strings.ReplaceAll(err.Error(), "\n", "\r\n") + "\r\n")
		return
	}
	e.text = clean(strings.ReplaceAll(text, "\r\n", "\n"))
	e.pos = len(e.text)
}

func (e *Editor) write(s string) { _, _ = io.WriteString(e.o.Out, s) }

// size is the screen's.
func (e *Editor) size() (columns, rows int) {
	if e.o.Size != nil {
		columns, rows = e.o.Size()
	}
	if columns <= 0 {
		columns = 80
	}
	if rows <= 0 {
		rows = 24
	}
	return max(columns, 8), max(rows, 2)
}

// draw shows the text anew from its first row on. A text that is higher than the screen shows the
// part with the cursor.
func (e *Editor) draw() {
	columns, height := e.size()
	s := layout(e.prompt, e.more, e.text, e.pos, columns)
	top := 0
	if len(s.rows) > height {
		top = min(max(s.row-height+1, 0), len(s.rows)-height)
	}
	shown := s.rows[top:min(len(s.rows), top+height)]
	var sb strings.Builder
	e.rewind(&sb)
	sb.WriteString(strings.Join(shown, "\r\n"))
	if n := len(shown) - 1 - (s.row - top); n > 0 {
		fmt.Fprintf(&sb, "\x1b[%dA", n)
	}
	sb.WriteByte('\r')
	if s.col > 0 {
		fmt.Fprintf(&sb, "\x1b[%dC", s.col)
	}
	e.write(sb.String())
	e.drawn = s.row - top
	e.column, e.columns = s.col, columns
	// A mark that joins what stands before it changes that: only plain letters go straight to the
	// screen (see press).
	e.quick = e.pos == len(e.text)
}

// rewind goes to the first row that was drawn and clears all from there.
func (e *Editor) rewind(sb *strings.Builder) {
	sb.WriteByte('\r')
	if e.drawn > 0 {
		fmt.Fprintf(sb, "\x1b[%dA", e.drawn)
	}
	sb.WriteString("\x1b[J")
}

// leave shows the whole text a last time and goes to the line after it.
func (e *Editor) leave() {
	columns, height := e.size()
	s := layout(e.prompt, e.more, e.text, e.pos, columns)
	var sb strings.Builder
	switch {
	case len(s.rows) > height:
		e.rewind(&sb)
		sb.WriteString(strings.Join(s.rows, "\r\n"))
	case len(s.rows)-1 > e.drawn:
		fmt.Fprintf(&sb, "\x1b[%dB", len(s.rows)-1-e.drawn)
	}
	sb.WriteString("\r\n")
	e.write(sb.String())
	e.drawn = 0
}
