package grammar

import "sync"

// Formats of strings, as expressions in Go's syntax for the whole text. Where a format has odd
// corners (leap seconds, quoted mail addresses) they are in, so that what a validator takes can be
// generated, but nothing is that it might not take.
var formatSources = map[string]string{
	"date":      fullDate,
	"time":      fullTime,
	"date-time": `(?:` + fullDate + `)[Tt](?:` + fullTime + `)`,
	"duration": `P(?:[0-9]{1,6}W|(?:[0-9]{1,6}Y(?:[0-9]{1,6}M(?:[0-9]{1,6}D)?)?|[0-9]{1,6}M(?:[0-9]{1,6}D)?|[0-9]{1,6}D)(?:T` + clock +
		`)?|T` + clock + `)`,
	"uuid":     `[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`,
	"ipv4":     ipv4,
	"ipv6":     ipv6,
	"hostname": hostname,
	"email": `(?:` + atom + `+(?:\.` + atom + `+)*|"[ !#-?A-\[\]-~]+")@(?:` + hostname + `|\[(?:` + ipv4 + `)\]|\[IPv6:(?:` + ipv6 +
		`)\])`,
	"uri":           uri,
	"json-pointer":  `(?:/(?:[^~/]|~[01])*)*`,
	"uri-reference": `(?:` + uri + `)|(?:` + path + `)?(?:\?` + query + `)?(?:#` + query + `)?`,
}

const (
	fullDate = `(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8])))` +
		`|(?:(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)`
	fraction = `(?:\.[0-9]{1,9})?`
	fullTime = `(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]` + fraction + `(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9]))|23:59:60` +
		fraction + `[Zz]`
	clock = `(?:[0-9]{1,6}H(?:[0-9]{1,6}M(?:[0-9]{1,6}S)?)?|[0-9]{1,6}M(?:[0-9]{1,6}S)?|[0-9]{1,6}S)`
	octet = `(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])`
	ipv4  = octet + `(?:\.` + octet + `){3}`
	h16   = `[0-9a-fA-F]{1,4}`
	ls32  = `(?:` + h16 + `:` + h16 + `|` + ipv4 + `)`
	ipv6  = `(?:` + h16 + `:){6}` + ls32 +
		`|::(?:` + h16 + `:){5}` + ls32 +
		`|(?:` + h16 + `)?::(?:` + h16 + `:){4}` + ls32 +
		`|(?:(?:` + h16 + `:){0,1}` + h16 + `)?::(?:` + h16 + `:){3}` + ls32 +
		`|(?:(?:` + h16 + `:){0,2}` + h16 + `)?::(?:` + h16 + `:){2}` + ls32 +
		`|(?:(?:` + h16 + `:){0,3}` + h16 + `)?::` + h16 + `:` + ls32 +
		`|(?:(?:` + h16 + `:){0,4}` + h16 + `)?::` + ls32 +
		`|(?:(?:` + h16 + `:){0,5}` + h16 + `)?::` + h16 +
		`|(?:(?:` + h16 + `:){0,6}` + h16 + `)?::`
	// No label has hyphens third and fourth: what such a label means depends on who reads it.
	labelHead = `[a-zA-Z0-9](?:[a-zA-Z0-9]|[a-zA-Z0-9-][a-zA-Z0-9](?:[a-zA-Z0-9-]`
	labelTail = `[a-zA-Z0-9])?)?`
	// All labels but the last are shorter than they might be, so that six of them stay below 253
	// characters.
	hostname = `(?:` + labelHead + `{0,27}` + labelTail + `\.){0,5}` + labelHead + `{0,59}` + labelTail
	atom     = "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]"
	escaped  = `%[0-9a-fA-F]{2}`
	segment  = `(?:[a-zA-Z0-9._~!$&'()*+,;=@-]|` + escaped + `)`
	path     = `/?` + segment + `+(?:/` + segment + `*)*`
	query    = `(?:[a-zA-Z0-9._~!$&'()*+,;=:@/?-]|` + escaped + `)*`
	uri      = `[a-zA-Z][a-zA-Z0-9+.-]*:(?://` + hostname + `(?::[0-9]{1,4})?(?:/(?:` + segment + `|:)*)*|/?(?:` + segment + `|:)+(?:/(?:` +
		segment + `|:)*)*)(?:\?` + query + `)?(?:#` + query + `)?`
)

// Formats that say nothing a text could be held to: descriptions of what the string is for.
var describing = map[string]bool{
	"password": true, "binary": true, "path": true, "file-path": true, "directory-path": true, "markdown": true, "html": true, "text": true,
	"textarea": true,
}

// numberFormats are the ranges of OpenAPI's formats; the empty range says nothing.
var numberFormats = map[string][2]string{
	"int8": {"-128", "127"}, "uint8": {"0", "255"}, "int16": {"-32768", "32767"}, "uint16": {"0", "65535"},
	"int32": {"-2147483648", "2147483647"}, "uint32": {"0", "4294967295"},
	"int64": {"-9223372036854775808", "9223372036854775807"}, "uint64": {"0", "18446744073709551615"},
	"float": {}, "double": {}, "decimal": {},
}

// formats are the languages of formatSources, and the frames of their JSON strings, which all
// grammars share. Both are made when they are asked for.
var formats = func() map[string]format {
	out := map[string]format{}
	for name, source := range formatSources {
		language := sync.OnceValue(func() *runes {
			d := whole(source)
			if name == "email" {
				d, _ = d.and(whole(`[^@]{1,64}@[^@]+`)) // constants: it is not too large
			}
			return d
		})
		out[name] = format{language, sync.OnceValue(func() *frame {
			p := &program{}
			f := p.add(name)
			f.nfa.eps(p.quoted(f.nfa, 0, language()), f.nfa.end)
			if err := p.finish(); err != nil {
				panic("grammar: " + name + ": " + err.Error()) // a constant of this package
			}
			for _, f := range p.frames {
				f.shared = true
			}
			return f
		})}
	}
	return out
}()

type format struct {
	language func() *runes
	frame    func() *frame
}

// stringFormat returns a format's language, nil where it only describes, and whether it is known.
func stringFormat(name string) (*runes, bool) {
	if f, ok := formats[name]; ok {
		return f.language(), true
	}
	_, number := numberFormats[name]
	return nil, describing[name] || number
}
