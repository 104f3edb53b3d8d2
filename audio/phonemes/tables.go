package phonemes

import "strings"

// abbreviations are words with a period that does not end a sentence by itself. St. is saint or
// street, by its neighbours.
var abbreviations = map[string]string{
	"dr": "doctor", "mr": "mister", "mrs": "missus", "ms": "Ms", "prof": "professor", "gen": "general", "col": "colonel",
	"lt": "lieutenant", "sgt": "sergeant", "capt": "captain", "rev": "reverend",
	"gov": "governor", "sen": "senator", "rep": "representative",
	"jr": "junior", "sr": "senior", "st": "saint", "ave": "avenue", "blvd": "boulevard", "rd": "road", "mt": "mount", "vs": "versus",
	"etc": "et cetera", "e.g": "for example", "i.e": "that is", "approx": "approximately", "inc": "incorporated", "corp": "corporation",
	"co": "company", "ltd": "limited", "dept": "department", "est": "established", "vol": "volume", "cf": "compare", "al": "al",
	"jan": "January", "feb": "February", "mar": "March", "apr": "April", "jun": "June", "jul": "July", "aug": "August", "sep": "September",
	"sept": "September", "oct": "October", "nov": "November", "dec": "December",
	"mon": "Monday", "tue": "Tuesday", "tues": "Tuesday", "wed": "Wednesday", "thu": "Thursday", "thurs": "Thursday", "fri": "Friday",
}

// bare are those that are known without a period, too.
var bare = set("dr mr mrs vs etc")

// beforeDigits are those that are meant only before a number.
var beforeDigits = map[string]string{"no": "number", "fig": "figure", "figs": "figures", "p": "page", "pp": "pages", "ch": "chapter",
	"sec": "section", "vol": "volume"}

var monthNames = strings.Fields("January February March April May June July August September October November December")

// months is the number of a month, from 1.
var months = func() map[string]int {
	m := map[string]int{"sept": 9}
	for i, name := range monthNames {
		m[strings.ToLower(name)], m[strings.ToLower(name[:3])] = i+1, i+1
	}
	return m
}()

// counted are words before a roman numeral that is read as a number; reigned are names before one
// that is read as an ordinal.
var counted = set("chapter part book volume act scene section war phase type level stage " +
	"appendix article title figure table class mark bowl")

var reigned = set("henry louis elizabeth george charles william edward richard paul pius james napoleon philip catherine leo benedict " +
	"gregory john frederick nicholas alexander innocent clement")

var currencies = map[string][2]string{"$": {"dollar", "cent"}, "£": {"pound", "penny"}, "€": {"euro", "cent"}, "¥": {"yen", ""},
	"₹": {"rupee", "paisa"}}

var multiples = map[string]string{"k": "thousand", "m": "million", "mn": "million", "bn": "billion", "b": "billion", "t": "trillion",
	"million": "million", "billion": "billion", "trillion": "trillion", "thousand": "thousand", "hundred": "hundred"}

// units are what stands behind a number. A slash in the value is where "per" goes: only what is
// before it has a plural.
var units = map[string]string{
	"%": "percent", "‰": "per mille", "°": "degree", "°C": "degree/Celsius", "°F": "degree/Fahrenheit", "km": "kilometer", "m": "meter",
	"cm": "centimeter", "mm": "millimeter", "nm": "nanometer", "µm": "micrometer", "μm": "micrometer",
	"mi": "mile", "ft": "foot", "yd": "yard",
	"kg": "kilogram", "g": "gram", "mg": "milligram", "lb": "pound", "lbs": "pound",
	"oz": "ounce", "l": "liter", "L": "liter",
	"ml": "milliliter", "mL": "milliliter", "GB": "gigabyte", "MB": "megabyte", "KB": "kilobyte", "kB": "kilobyte", "TB": "terabyte",
	"PB": "petabyte", "GiB": "gibibyte", "MiB": "mebibyte", "KiB": "kibibyte", "ms": "millisecond", "µs": "microsecond",
	"μs": "microsecond",
	"ns": "nanosecond", "s": "second", "sec": "second", "min": "minute", "mins": "minute", "h": "hour", "hr": "hour", "hrs": "hour",
	"Hz": "hertz", "kHz": "kilohertz", "MHz": "megahertz", "GHz": "gigahertz", "W": "watt", "kW": "kilowatt", "MW": "megawatt",
	"kWh": "kilowatt hour", "V": "volt", "mV": "millivolt", "mA": "milliamp", "mAh": "milliamp hour", "dB": "decibel", "px": "pixel",
	"km/h": "kilometer/per hour", "kph": "kilometer/per hour", "mph": "mile/per hour", "m/s": "meter/per second",
	"MB/s": "megabyte/per second", "GB/s": "gigabyte/per second", "Mbps": "megabit/per second", "Gbps": "gigabit/per second",
	"kbps": "kilobit/per second", "fps": "frame/per second", "rpm": "revolution/per minute", "m2": "square meter", "m3": "cubic meter",
	"km2": "square kilometer", "cm2": "square centimeter", "¢": "cent", "A": "amp", "in": "inch",
}

// glued are units that are other words when a space is before them.
var glued = set("A in s h l")

var unchanged = set("percent hertz kilohertz megahertz gigahertz")

var signs = map[rune]string{'&': "and", '@': "at", '+': "plus", '=': "equals", '%': "percent", '×': "times", '÷': "divided by",
	'<': "less than", '>': "greater than", '§': "section", '°': "degrees", '±': "plus or minus", '≈': "about", '√': "square root of",
	'$': "dollars", '£': "pounds", '€': "euros", '≤': "at most", '≥': "at least"}

// webSigns are read in addresses alone.
var webSigns = map[rune]string{'.': "dot", '/': "slash", '-': "dash", '_': "underscore", ':': "colon", '@': "at", '+': "plus",
	'=': "equals", '&': "and", '?': "question mark", '#': "hash", '%': "percent", '~': "tilde"}

// spelt are capitals that would else be read as words.
var spelt = set("US IT AM PM ID")

func set(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

// arpabets are the sounds of ARPABET, without stress.
var arpabets = map[string]string{"AA": "ɑ", "AE": "æ", "AH": "ʌ", "AO": "ɔ", "AW": "W", "AY": "I", "B": "b", "CH": "ʧ", "D": "d",
	"DH": "ð", "EH": "ɛ", "ER": "ɜɹ", "EY": "A", "F": "f", "G": "ɡ", "HH": "h", "IH": "ɪ", "IY": "i", "JH": "ʤ", "K": "k", "L": "l",
	"M": "m", "N": "n", "NG": "ŋ", "OW": "O", "OY": "Y", "P": "p", "R": "ɹ", "S": "s", "SH": "ʃ", "T": "t", "TH": "θ", "UH": "ʊ",
	"UW": "u", "V": "v", "W": "w", "Y": "j", "Z": "z", "ZH": "ʒ"}

// unstressed are those that sound otherwise without stress.
var unstressed = map[string]string{"AH0": "ə", "ER0": "əɹ"}
