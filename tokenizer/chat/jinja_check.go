package chat

import (
	"fmt"
	"strconv"
)

// tmplCheck refuses at load what can be seen to have no end: a macro that calls itself, directly or through others, whatever it is given, and loops
// over ranges nobody needs. What only a render can show, the budget stops.
func tmplCheck(src string, segs []tmplSegment, macros map[string]bool) error {
	always := make(map[string][]string) // macro → what it calls outside of any condition and loop
	inside, depth := "", 0
	for _, s := range segs {
		if s.kind != '{' && s.kind != '%' {
			continue
		}
		toks := tmplTokens(src[s.start:s.end], s.start)
		if len(toks) == 0 {
			continue
		}
		if len(toks) > 20_000 {
			return fmt.Errorf("an expression at byte %d has %d parts", s.start, len(toks))
		}
		if err := tmplNesting(toks); err != nil {
			return fmt.Errorf("an expression at byte %d %w", s.start, err)
		}
		for i, t := range toks {
			if t.kind == 'n' && t.text == "range" && i+1 < len(toks) && toks[i+1].kind == '(' {
				for j := i + 2; j < len(toks) && toks[j].kind != ')'; j++ {
					if n, err := strconv.ParseFloat(toks[j].text, 64); toks[j].kind == 'd' && (err != nil || n > tmplMaxSteps) {
						return fmt.Errorf("%w: range(%s)", ErrBudget, toks[j].text)
					}
				}
			}
			if t.kind == '*' && i+1 < len(toks) && toks[i+1].kind == 'd' {
				if n, err := strconv.ParseFloat(toks[i+1].text, 64); err != nil || n > tmplMaxSteps {
					return fmt.Errorf("%w: a factor of %s", ErrBudget, toks[i+1].text)
				}
			}
		}
		if s.kind == '%' {
			switch toks[0].text {
			case "macro":
				if len(toks) > 1 {
					inside, depth = toks[1].text, 0
					macros[inside] = true
					always[inside] = nil
				}
				continue
			case "endmacro":
				inside = ""
			case "if", "for":
				depth++
			case "endif", "endfor":
				depth--
			}
		}
		if inside == "" || depth > 0 || s.kind == '%' && toks[0].text == "if" {
			continue
		}
		cond := tmplTop(toks, func(t tmplToken) bool { return t.kind == 'n' && (t.text == "if" || t.text == "and" || t.text == "or") }) >= 0
		for i, t := range toks {
			if !cond && t.kind == 'n' && i+1 < len(toks) && toks[i+1].kind == '(' && (i == 0 || toks[i-1].kind != '.') {
				always[inside] = append(always[inside], t.text)
			}
		}
	}
	for name := range always {
		seen := make(map[string]bool)
		todo := always[name]
		for len(todo) > 0 {
			f := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if f == name {
				return fmt.Errorf("%w: macro %s always calls itself", ErrBudget, name)
			}
			if !seen[f] {
				seen[f] = true
				todo = append(todo, always[f]...)
			}
		}
	}
	return nil
}

// tmplNesting bounds brackets and chains that make the engine's parser recurse.
func tmplNesting(toks []tmplToken) error {
	depth, unary := 0, 0
	for _, t := range toks {
		switch t.kind {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		}
		if t.text == "not" || t.kind == '-' || t.kind == '+' || t.text == "else" {
			unary++
		}
		if depth > 100 || unary > 2000 {
			return fmt.Errorf("is nested too deep")
		}
	}
	return nil
}
