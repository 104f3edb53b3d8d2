package terminal

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Item is a line of a menu: what it is called, and a few words of what it does.
type Item struct{ Name, Says string }

// Menu lets a person choose one of several lines with the arrow keys, or by its number.
type Menu struct {
	e     *Editor
	style bool // the chosen line is bold
	drawn int  // lines on the screen
}

// NewMenu makes one. In, Out and Size of the options are used. style: the chosen line is bold.
func NewMenu(o Options, style bool) *Menu { return &Menu{e: NewEditor(o), style: style} }

// Choose shows the lines under a title until one is chosen, and takes them away. The terminal must
// be raw, and stays so. It fails with io.EOF for q, Ctrl-D and the left arrow, with ErrInterrupted,
// and with what reading fails with.
func (m *Menu) Choose(title string, items []Item) (int, error) {
	at := 0
	for {
		m.draw(title, items, at)
		k, err := m.e.key()
		if err != nil {
			m.clear()
			return 0, err
		}
		switch {
		case k.name == up, k.name == char && k.rune == 'k':
			at = (at + len(items) - 1) % len(items)
		case k.name == down, k.name == char && k.rune == 'j', k.name == complete:
			at = (at + 1) % len(items)
		case k.name == home:
			at = 0
		case k.name == end:
			at = len(items) - 1
		case k.name == enter, k.name == right:
			m.clear()
			return at, nil
		case k.name == char && k.rune >= '1' && k.rune <= '9' && int(k.rune-'1') < len(items):
			m.clear()
			return int(k.rune - '1'), nil
		case k.name == interrupt:
			m.clear()
			return 0, ErrInterrupted
		case k.name == eof, k.name == left, k.name == backspace, k.name == char && k.rune == 'q':
			m.clear()
			return 0, io.EOF
		}
	}
}

// clear takes the menu off the screen.
func (m *Menu) clear() {
	if m.drawn > 0 {
		m.e.write(fmt.Sprintf("\r\x1b[%dA\x1b[J", m.drawn))
	}
	m.drawn = 0
}

// draw shows the lines around the chosen one, as many as there is room for. What an item says is
// left out where the screen is narrow.
func (m *Menu) draw(title string, items []Item, at int) {
	columns, rows := m.e.size()
	room := max(rows-4, 1)
	from := max(min(at-room/2, len(items)-room), 0)
	wide := 0
	for _, item := range items {
		wide = max(wide, Width(item.Name))
	}
	var b strings.Builder
	line := func(s string, chosen bool) {
		s = Cut(clean(s), columns-1)
		if chosen && m.style {
			s = "\x1b[1m" + s + "\x1b[0m"
		}
		b.WriteString(s + "\r\n")
	}
	line(title, false)
	n := 1
	for i := from; i < min(from+room, len(items)); i++ {
		mark, number := "  ", "  "
		if i == at {
			mark = "> "
		}
		if i < 9 {
			number = strconv.Itoa(i+1) + " "
		}
		s := mark + number + items[i].Name
		if says := strings.Repeat(" ", wide-Width(items[i].Name)) + "  " + items[i].Says; items[i].Says != "" && Width(s+says) < columns {
			s += says
		}
		line(s, i == at)
		n++
	}
	line("Arrows or a number; q leaves", false)
	n++
	m.clear()
	m.e.write(b.String())
	m.drawn = n
}
