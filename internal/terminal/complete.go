package terminal

import "strings"

// mostShown is how many completions are listed.
const mostShown = 60

// completed puts what completes the text before the cursor in its place: all of it where one does,
// else as much as all have in common. Where that is nothing, it lists them.
func (e *Editor) completed() {
	if e.o.Complete == nil {
		e.insert("\t")
		return
	}
	before := e.text[:e.pos]
	from, list := e.o.Complete(before)
	if len(list) == 0 || from < 0 || from > len(before) {
		e.write("\a")
		return
	}
	begun := before[from:]
	text := common(list)
	if len(list) == 1 && !strings.HasSuffix(text, "/") && !strings.HasSuffix(text, " ") {
		text += " "
	}
	if text != begun && len(text) >= len(begun) {
		e.text = before[:from] + text + e.text[e.pos:]
		e.pos = from + len(text)
		return
	}
	if len(list) == 1 {
		return
	}
	e.leave()
	columns, _ := e.size()
	e.write(strings.ReplaceAll(listed(list, columns), "\n", "\r\n"))
	e.drawn = 0
}

// common is the beginning that all have, in whole clusters.
func common(list []string) string {
	all := list[0]
	for _, s := range list[1:] {
		at := 0
		for at < len(all) && at < len(s) {
			next := after(all, at)
			if next > len(s) || all[at:next] != s[at:next] {
				break
			}
			at = next
		}
		all = all[:at]
	}
	return all
}

// listed is a list in as many columns as there is room for.
func listed(list []string, columns int) string {
	more := len(list) - mostShown
	list = list[:min(len(list), mostShown)]
	wide := 0
	for _, s := range list {
		wide = max(wide, Width(clean(s)))
	}
	each := max((columns-1)/(wide+2), 1)
	high := (len(list) + each - 1) / each
	var b strings.Builder
	for row := range high {
		var line strings.Builder
		for i := row; i < len(list); i += high {
			line.WriteString(clean(list[i]) + strings.Repeat(" ", wide+2-Width(clean(list[i]))))
		}
		b.WriteString(strings.TrimRight(Cut(strings.TrimRight(line.String(), " "), columns-1), " ") + "\n")
	}
	if more > 0 {
		b.WriteString("…\n")
	}
	return b.String()
}
