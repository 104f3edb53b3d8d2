package phonemes

import (
	"regexp"
	"strings"
	"unicode"
)

// This file reads fields that are no words. Each method says how many fields it has read, 0 for
// none.

var (
	isAddress = regexp.MustCompile(`^(?:[a-zA-Z]+://|www\.)\S+$|^[\w.+-]+@[\w-]+(?:\.[\w-]+)+$|^(?:[a-z0-9-]+\.)+(?:com|org|net|io|dev|edu|gov|de|uk|ai)(?:/\S*)?$`)
	isISO     = regexp.MustCompile(`^(\d{4})-(\d\d)-(\d\d)$`)
	isSlashed = regexp.MustCompile(`^(\d\d?)/(\d\d?)/(\d{4})$`)
	isDotted  = regexp.MustCompile(`^(\d\d?)\.(\d\d?)\.(\d{4})$`)
	isDay     = regexp.MustCompile(`^(\d\d?)(?:st|nd|rd|th)?$`)
	isYear    = regexp.MustCompile(`^[12]\d{3}$`)
	isTime    = regexp.MustCompile(`^(\d\d?):(\d\d)(?::(\d\d))?([aApP]\.?[mM])?$`)
	isHour    = regexp.MustCompile(`^(\d\d?)([aApP]\.?[mM])?$`)
	isHalf    = regexp.MustCompile(`^[aApP]\.?[mM]$`)
	isMoney   = regexp.MustCompile(`^(-?)(?:US|A|C)?([$£€¥₹])(\d[\d,]*(?:\.\d+)?|\.\d+)([a-zA-Z]*)$`)
	isAfter   = regexp.MustCompile(`^(-?)(\d[\d,]*(?:\.\d+)?)([£€¥₹])()$`)
	isPhone   = regexp.MustCompile(`^(?:\+\d{1,3}[-.]?)?(?:\d{2,5}[-.]){1,3}\d{4}$|^\+\d{7,15}$`)
	isRange   = regexp.MustCompile(`^(\d[\d,]*(?:\.\d+)?)-(\d[\d,]*(?:\.\d+)?)(%|[a-zA-Z°]*)$`)
	isFrac    = regexp.MustCompile(`^(\d{1,4})/(\d{1,4})$`)
	isOrdinal = regexp.MustCompile(`^(\d[\d,]*)(?:st|nd|rd|th)$`)
	isDecade  = regexp.MustCompile(`^'?(\d{2}|\d{4})'?s$`)
	isVersion = regexp.MustCompile(`^v?\d+(?:\.\d+){2,}$`)
	isNumber  = regexp.MustCompile(`^([-+~#]?)(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(\S*)$`)
	isProduct = regexp.MustCompile(`^(\d+)[x*×](\d+)$`)
	isLetters = regexp.MustCompile(`^(?:[A-Za-z]\.)+[A-Za-z]$`)
)

func (r *reader) address(i int) int {
	core := r.fields[i].core
	if !isAddress.MatchString(core) {
		return 0
	}
	if _, rest, ok := strings.Cut(core, "://"); ok {
		core = rest
	}
	core = strings.TrimRight(core, "/")
	if rest, ok := strings.CutPrefix(core, "www."); ok {
		r.spell("www")
		r.say("dot")
		core = rest
	}
	start := 0
	for j, c := range core {
		if unicode.IsLetter(c) || isDigit(core[j]) {
			continue
		}
		r.plain(core[start:j])
		start = j + len(string(c))
		r.say(webSigns[c])
	}
	r.plain(core[start:])
	return 1
}

func (r *reader) dated(i int) int {
	core := r.fields[i].core
	if m := isISO.FindStringSubmatch(core); m != nil && r.date(value(m[1]), value(m[2]), value(m[3])) {
		return 1
	}
	if m := isDotted.FindStringSubmatch(core); m != nil && r.date(value(m[3]), value(m[2]), value(m[1])) {
		return 1
	}
	if m := isSlashed.FindStringSubmatch(core); m != nil {
		first, second, year := value(m[1]), value(m[2]), value(m[3])
		if r.Accent == British {
			first, second = second, first
		}
		if r.date(year, first, second) || r.date(year, second, first) {
			return 1
		}
	}
	if n := r.monthDay(i); n > 0 {
		return n
	}
	return r.clock(i)
}

// date reads a whole date, if it is one.
func (r *reader) date(year, month, day int) bool {
	if month < 1 || month > 12 || day < 1 || day > 31 || year < 1000 {
		return false
	}
	r.day(month, day)
	r.say(", " + r.year(year))
	return true
}

func (r *reader) day(month, day int) {
	if r.Accent == British {
		r.say("the " + r.ordinal(day) + " of " + monthNames[month-1])
		return
	}
	r.say(monthNames[month-1] + " " + r.ordinal(day))
}

// monthDay reads "Nov 28, 2026", "28 November" and the like.
func (r *reader) monthDay(i int) int {
	core := r.fields[i].core
	after := i + 1
	var month int
	var day []string
	switch {
	case core[0] >= 'A' && core[0] <= 'Z' && months[strings.ToLower(core)] > 0:
		if t := r.fields[i].trail; t != "" && t != "." {
			return 0
		}
		month, day = months[strings.ToLower(core)], isDay.FindStringSubmatch(r.core(after))
	case isDay.MatchString(core) && r.next(i) != "" && unicode.IsUpper(rune(r.next(i)[0])):
		month, day = months[strings.ToLower(r.next(i))], isDay.FindStringSubmatch(core)
	}
	if month == 0 || day == nil || value(day[1]) < 1 || value(day[1]) > 31 {
		return 0
	}
	if day[0] == core { // the day is before its month
		n := len(r.out)
		if n == 0 || r.out[n-1].text != "the" {
			r.say("the")
		}
		r.say(r.ordinal(value(day[1])) + " of " + monthNames[month-1])
	} else {
		r.day(month, value(day[1]))
	}
	if t := r.fields[after].trail; (t == "" || t == ",") && isYear.MatchString(r.core(after+1)) {
		r.say(", " + r.year(value(r.core(after+1))))
		return 3
	}
	return 2
}

func (r *reader) clock(i int) int {
	core := r.fields[i].core
	half, took := "", 1
	if n := r.next(i); isHalf.MatchString(n) {
		half, took = n, 2
	}
	m := isTime.FindStringSubmatch(core)
	if m == nil {
		h := isHour.FindStringSubmatch(core)
		if h == nil || h[2] == "" && (half == "" || half == "am") || value(h[1]) > 24 {
			return 0
		}
		m = []string{"", h[1], "", "", h[2]}
	}
	hour, minute := value(m[1]), value(m[2])
	if hour > 24 || minute > 59 || len(m[3]) > 0 && value(m[3]) > 59 {
		return 0
	}
	if m[4] != "" {
		half, took = m[4], 1
	}
	r.say(r.cardinal(hour))
	switch {
	case minute == 0 && (half != "" || m[3] != ""):
	case minute == 0 && hour >= 1 && hour <= 12:
		r.say("o'clock")
	case minute == 0:
		r.say("hundred")
	case minute < 10:
		r.say("oh " + r.cardinal(minute))
	default:
		r.say(r.cardinal(minute))
	}
	if m[3] != "" {
		r.say("and " + r.cardinal(value(m[3])) + " seconds")
	}
	if half != "" {
		r.spell(strings.ReplaceAll(half, ".", ""))
	}
	return took
}

func (r *reader) money(i int) int {
	core := r.fields[i].core
	m := isMoney.FindStringSubmatch(core)
	sign, amount := "", ""
	if m != nil {
		sign, amount = m[2], m[3]
	} else if m = isAfter.FindStringSubmatch(core); m != nil {
		sign, amount = m[3], m[2]
	} else {
		return 0
	}
	if m[1] != "" {
		r.say("minus")
	}
	name, took := currencies[sign], 1
	multiple, known := multiples[strings.ToLower(m[4])]
	if m[4] != "" && !known {
		return 0
	}
	if word, ok := multiples[r.next(i)]; ok && m[4] == "" && len(r.next(i)) > 1 {
		multiple, took = word, 2
	}
	if multiple != "" {
		r.say(r.decimal(amount) + " " + multiple + " " + several(name[0], "2"))
		return took
	}
	whole, part, _ := strings.Cut(strings.ReplaceAll(amount, ",", ""), ".")
	if len(part) != 0 && len(part) != 2 || name[1] == "" && part != "" {
		r.say(r.decimal(amount) + " " + several(name[0], "2"))
		return 1
	}
	cents := strings.TrimLeft(part, "0")
	if strings.Trim(whole, "0") != "" || cents == "" {
		r.say(r.spoken(whole) + " " + several(name[0], whole))
		if cents != "" {
			r.say("and")
		}
	}
	if cents != "" {
		r.say(r.spoken(cents) + " " + several(name[1], cents))
	}
	return 1
}

// several is a unit's name after a number.
func several(name, number string) string {
	if number == "1" || unchanged[name] || name == "yen" {
		return name
	}
	switch name {
	case "penny":
		return "pence"
	case "paisa":
		return "paise"
	case "foot":
		return "feet"
	}
	return plural(name)
}

// unit is a unit's name after a number, if s is one.
func (r *reader) unit(s, number string) (string, bool) {
	name, ok := units[s]
	if !ok {
		return "", false
	}
	if r.Accent == British {
		name = strings.NewReplacer("meter", "metre", "liter", "litre").Replace(name)
	}
	head, tail, _ := strings.Cut(name, "/")
	if strings.HasPrefix(head, "per") {
		return head, true
	}
	return strings.TrimSpace(several(head, number) + " " + tail), true
}

func (r *reader) number(i int) int {
	core := r.fields[i].core
	if strings.IndexFunc(core, unicode.IsDigit) < 0 {
		return 0
	}
	if r.phone(i) {
		return 1
	}
	if m := isRange.FindStringSubmatch(core); m != nil {
		r.say(r.bare(m[1]) + " to")
		return r.amount(i, m[2], m[3])
	}
	if m := isFrac.FindStringSubmatch(core); m != nil && value(m[2]) > 0 {
		if n := len(r.out); n > 0 && i > 0 && isDay.MatchString(r.fields[i-1].core) && !r.out[n-1].punct {
			r.say("and")
			if m[1] == "1" && value(m[2]) <= 20 {
				r.say("a " + strings.TrimPrefix(r.fraction(1, value(m[2])), "one "))
				return 1
			}
		}
		r.say(r.fraction(value(m[1]), value(m[2])))
		return 1
	}
	if m := isOrdinal.FindStringSubmatch(core); m != nil && len(m[1]) < 12 {
		r.say(r.ordinal(value(strings.ReplaceAll(m[1], ",", ""))))
		return 1
	}
	if m := isDecade.FindStringSubmatch(core); m != nil {
		r.say(plural(r.bare(m[1])))
		return 1
	}
	if isVersion.MatchString(core) {
		for j, part := range strings.Split(core, ".") {
			if j > 0 {
				r.say("point")
			}
			r.plain(part)
		}
		return 1
	}
	if m := isProduct.FindStringSubmatch(core); m != nil {
		r.say(r.spoken(m[1]) + " by " + r.spoken(m[2]))
		return 1
	}
	m := isNumber.FindStringSubmatch(core)
	if m == nil {
		return 0
	}
	switch m[1] {
	case "-":
		r.say("minus")
	case "+":
		r.say("plus")
	case "~":
		r.say("about")
	case "#":
		r.say("number")
	}
	return r.amount(i, m[2], m[3])
}

// bare is a number that may be a year.
func (r *reader) bare(number string) string {
	if isYear.MatchString(number) && number >= "1100" && number < "2100" {
		return r.year(value(number))
	}
	return r.decimal(number)
}

// amount reads the number of field i with what follows in the field, or a unit in the next one.
func (r *reader) amount(i int, number, suffix string) int {
	next := r.next(i)
	unit, ok := r.unit(next, number)
	switch {
	case suffix == "" && ok && !glued[next]:
		r.say(r.decimal(number) + " " + unit)
		return 2
	case suffix == "":
		r.say(r.bare(number))
		return 1
	}
	if unit, ok := r.unit(suffix, number); ok {
		r.say(r.decimal(number) + " " + unit)
		return 1
	}
	if word, ok := multiples[strings.ToLower(suffix)]; ok && (suffix == "k" || suffix == "M" || len(suffix) > 1) {
		r.say(r.decimal(number) + " " + word)
		return 1
	}
	r.say(r.decimal(number))
	if rest := strings.TrimLeft(suffix, "-"); rest != suffix && rest != "" && isDigit(rest[0]) {
		r.say("dash")
	}
	r.plain(suffix)
	return 1
}

// phone reads a telephone number in groups of digits, and an area code in parentheses before one.
func (r *reader) phone(i int) bool {
	f := r.fields[i]
	if strings.HasSuffix(f.lead, "(") && len(f.core) == 3 && strings.HasPrefix(f.trail, ")") && isPhone.MatchString(r.core(i+1)) {
		r.say(oneByOne(f.core))
		return true
	}
	number := f.core
	// 1990-1995 is a range of years.
	if !isPhone.MatchString(number) || len(number) <= 9 && len(number) != 8 && isYear.MatchString(number[len(number)-4:]) {
		return false
	}
	if rest, ok := strings.CutPrefix(number, "+"); ok {
		r.say("plus")
		number = rest
	}
	for j, group := range strings.FieldsFunc(number, func(c rune) bool { return c == '-' || c == '.' }) {
		if j > 0 {
			r.out = append(r.out, token{text: ",", punct: true})
		}
		r.say(oneByOne(group))
	}
	return true
}

func (r *reader) abbreviation(i int) int {
	f := r.fields[i]
	lower := strings.ToLower(f.core)
	period := strings.HasPrefix(f.trail, ".")
	if word, ok := beforeDigits[lower]; ok && period && r.core(i+1) != "" && isDigit(r.core(i + 1)[0]) {
		r.say(word)
		return 1
	}
	if isLetters.MatchString(f.core) && abbreviations[lower] == "" {
		r.spell(strings.ReplaceAll(f.core, ".", ""))
		return 1
	}
	word, ok := abbreviations[lower]
	if !ok || !period && !bare[lower] && !strings.Contains(lower, ".") || lower == "al" {
		return 0
	}
	last := i+1 == len(r.fields)
	switch {
	case lower == "st":
		if prev := r.core(i - 1); prev != "" && (unicode.IsUpper(rune(prev[0])) || isDigit(prev[0])) && r.fields[i-1].trail == "" {
			word = "street"
		}
	case last && strings.Contains(" mar sun sat mon wed fri sen gen rep col est co no al mt ", " "+lower+" "):
		return 0 // a word that ends a sentence
	}
	if unicode.IsUpper(rune(f.core[0])) && word != "for example" && word != "that is" {
		word = strings.ToUpper(word[:1]) + word[1:]
	}
	r.say(word)
	return 1
}

func (r *reader) numeral(i int) int {
	core := r.fields[i].core
	n := roman(core)
	if n == 0 || i == 0 || r.fields[i-1].trail != "" {
		return 0
	}
	prev := strings.ToLower(r.fields[i-1].core)
	switch {
	case counted[prev]:
		r.say(r.cardinal(n))
	case reigned[prev] && (len(core) > 1 || core == "V"):
		r.say("the " + r.ordinal(n))
	default:
		return 0
	}
	return 1
}
