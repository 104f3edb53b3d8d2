package chat

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
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
			if t.kind == 'n' && strings.HasPrefix(t.text, "axle_") {
				return fmt.Errorf("the name %s is taken", t.text)
			}
			if t.kind >= 0x80 || t.kind == 'n' && strings.ContainsFunc(t.text, func(r rune) bool { return r >= 0x80 }) ||
				!strings.ContainsRune("nsd()[]{}.,:|~+-*/%<>=", rune(t.kind)) && t.text != "!=" {
				return fmt.Errorf("%q at byte %d is part of no expression", t.text, t.start)
			}
		}
		if s.kind == '%' {
			if err := tmplStatement(toks); err != nil {
				return fmt.Errorf("a statement at byte %d %w", s.start, err)
			}
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

// tmplStatement refuses statements that the engine, which cuts them apart as text, would read in another way than they are read here.
func tmplStatement(toks []tmplToken) error {
	plain := func(toks []tmplToken) bool { // names and commas
		for i, t := range toks {
			if i%2 == 0 && t.kind != 'n' || i%2 == 1 && t.kind != ',' {
				return false
			}
		}
		return true
	}
	rest := toks[1:]
	switch toks[0].text {
	case "if", "elif", "else", "endif", "endfor", "endset", "endmacro", "endcall", "endfilter", "raw", "endraw", "generation", "endgeneration", "break", "continue":
		return nil
	case "for":
		if k := tmplTop(rest, func(t tmplToken) bool { return t.text == "in" && t.kind == 'n' }); k <= 0 || !plain(rest[:k]) {
			return errors.New("is no loop over names")
		}
		return nil
	case "set":
		k := slices.IndexFunc(rest, func(t tmplToken) bool { return t.text == "=" && t.kind == '=' })
		switch {
		case len(rest) == 1 && rest[0].kind == 'n',
			k == 1 && rest[0].kind == 'n',
			k == 3 && rest[0].kind == 'n' && rest[1].kind == '.' && rest[2].kind == 'n':
			return nil
		}
		return errors.New("sets more than a name")
	case "macro":
		if len(rest) < 3 || rest[0].kind != 'n' || rest[1].kind != '(' || rest[len(rest)-1].kind != ')' {
			return errors.New("is no macro with parameters")
		}
		for i, t := range rest[2 : len(rest)-1] {
			empty := t.kind == '(' || t.kind == '[' || t.kind == '{'
			switch before := rest[i+1]; {
			case t.kind == 's' && strings.Contains(t.text, ","):
				return errors.New("has a default with a comma in it")
			case strings.ContainsRune("+*/%~|<>!", rune(t.kind)), t.text == "==", t.kind == 'n' && tmplOperator(t.text),
				empty && !strings.ContainsRune("=([{", rune(before.kind)):
				return errors.New("computes a default")
			}
		}
		return nil
	case "call":
		if len(rest) > 0 && rest[0].kind == '(' {
			k := slices.IndexFunc(rest, func(t tmplToken) bool { return t.kind == ')' })
			if k < 0 || !plain(rest[1:k]) {
				return errors.New("gives its block more than names")
			}
		}
		return nil
	case "filter":
		if len(rest) == 1 && rest[0].kind == 'n' && !slices.Contains([]string{"escape", "e", "indent", "replace", "tojson", "fromjson"}, rest[0].text) {
			return nil
		}
		return errors.New("is a filter that is not supported around a block")
	}
	return fmt.Errorf("begins with %q, which is not supported", toks[0].text)
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
