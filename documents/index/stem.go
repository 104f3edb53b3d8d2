package index

// stem takes a folded word's ending. It is light: it makes one word of a plural and a singular, of
// a verb's forms, and of a German noun's cases. It works in place.
func stem(w []byte, lang Language) []byte {
	if len(w) <= 3 || !letters(w) {
		return w
	}
	if lang == German {
		return stemGerman(w)
	}
	return stemEnglish(w)
}

// letters reports that a word consists of a to z: numbers and names such as gpt4 stay as they are.
func letters(w []byte) bool {
	for _, c := range w {
		if c < 'a' || c > 'z' {
			return false
		}
	}
	return true
}

func ends(w []byte, s string) bool { return len(w) > len(s) && string(w[len(w)-len(s):]) == s }

func vowel(c byte) bool { return c == 'a' || c == 'e' || c == 'i' || c == 'o' || c == 'u' || c == 'y' }

func hasVowel(w []byte) bool {
	for _, c := range w {
		if vowel(c) {
			return true
		}
	}
	return false
}

func stemEnglish(w []byte) []byte {
	n := len(w)
	switch {
	case n > 4 && ends(w, "ies"):
		w = append(w[:n-3], 'y')
	case ends(w, "sses"), ends(w, "shes"), ends(w, "ches"), ends(w, "xes"), ends(w, "zes"):
		w = w[:n-2]
	case ends(w, "s") && !ends(w, "ss") && !ends(w, "us") && !ends(w, "is"):
		w = w[:n-1]
	}
	for _, e := range []string{"ing", "ed"} {
		if b := w[:max(len(w)-len(e), 0)]; ends(w, e) && len(b) >= 3 && hasVowel(b) {
			w = b
			if k := len(w); k > 3 && w[k-1] == w[k-2] && w[k-1] != 'l' && w[k-1] != 's' && w[k-1] != 'z' {
				w = w[:k-1] // running, stopped
			}
			break
		}
	}
	for _, e := range []string{"ation", "ion", "ness", "ly"} {
		if b := w[:max(len(w)-len(e), 0)]; ends(w, e) && len(b) >= 4 {
			w = b
			break
		}
	}
	if k := len(w); k > 5 && ends(w, "at") { // generate, generation
		w = w[:k-2]
	}
	if k := len(w); k > 5 && ends(w, "ate") {
		w = w[:k-3]
	}
	if k := len(w); k > 3 && w[k-1] == 'e' {
		w = w[:k-1]
	}
	if k := len(w); k > 2 && w[k-1] == 'y' && !vowel(w[k-2]) {
		w[k-1] = 'i'
	}
	return w
}

// stemGerman takes the endings of nouns, adjectives and verbs, as UniNE's light stemmer does.
func stemGerman(w []byte) []byte {
	before := func(c byte) bool { // what an s or st stands behind where it is an ending
		switch c {
		case 'b', 'd', 'f', 'g', 'h', 'k', 'l', 'm', 'n', 't':
			return true
		}
		return false
	}
	switch n := len(w); {
	case n > 5 && ends(w, "ern"):
		w = w[:n-3]
	case n > 4 && (ends(w, "em") || ends(w, "en") || ends(w, "er") || ends(w, "es")):
		w = w[:n-2]
	case n > 4 && w[n-1] == 'e':
		w = w[:n-1]
	case n > 4 && w[n-1] == 's' && before(w[n-2]):
		w = w[:n-1]
	}
	switch n := len(w); {
	case n > 6 && ends(w, "est"):
		w = w[:n-3]
	case n > 5 && (ends(w, "er") || ends(w, "en")):
		w = w[:n-2]
	case n > 5 && ends(w, "st") && before(w[n-3]):
		w = w[:n-2]
	}
	return w
}
