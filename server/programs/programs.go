package programs

import (
	"strings"
)

// Program is one that people connect.
type Program struct {
	ID     string `json:"id"` // as 'axle launch' and addresses of the page name it
	Name   string `json:"name"`
	Note   string `json:"note"` // one sentence: where to set it, or what to know; the page translates it
	Copy   []Copy `json:"copy"` // what to set, with holes: see Values
	Needs  Tokens `json:"needs"`
	Launch *Start `json:"-"` // how 'axle launch' starts it; nil: it does not
	Starts bool   `json:"launch"`
}

// Copy is a text to copy into a shell, a file or a field.
type Copy struct {
	Into string `json:"into"` // sh, or the file or field that takes it
	Text string `json:"text"`
}

// Evidence is how a number of tokens is known.
type Evidence string

// Evidences of a number of tokens.
const (
	Measured   Evidence = "measured"   // with this version of the program
	Documented Evidence = "documented" // by the program's makers
	Talk       Evidence = "talk"       // there is no number: it sends little more than the conversation
	Grows      Evidence = "grows"      // there is no number: it grows with what the user puts in
)

// Tokens is what a program's first prompt takes of a model's context.
type Tokens struct {
	First   int      `json:"first"`             // of the first prompt; 0: see By
	Room    int      `json:"room"`              // with which there is room to work
	By      Evidence `json:"by"`                //
	Version string   `json:"version,omitempty"` // of the program that was measured
	Details string   `json:"-"`
}

// work is how many tokens of a context are to be left behind a first prompt, so that a program does
// some of its work before it forgets its beginning.
const work = 2048

// Fit is whether a program's first prompt has room in a context.
type Fit string

// Fits of a program.
const (
	Fits    Fit = "fits"
	Little  Fit = "little" // it has, and little is left for the work
	TooMany Fit = "no"
	Unknown Fit = "unknown" // nothing is known of the program, or of the context
)

// Fit says whether the program has room in a context of that many tokens.
func (t Tokens) Fit(context int) Fit {
	switch {
	case t.First == 0 || context <= 0:
		return Unknown
	case t.First >= context:
		return TooMany
	case t.Room > context:
		return Little
	}
	return Fits
}

// Start is how a program is started for a server. Texts have the holes of Values.
type Start struct {
	Command string
	Install string   // a command that installs it
	Env     []Var    // set for it
	Unset   []string // taken out of its environment: they would send it elsewhere
	Args    []string
	Entries []Entry // of its configuration
	As      string  // how the entries are given: "" in the file only, "-c" as flags, else the variable that takes them as JSON
	File    *File   // its own configuration; nil: it has none that the entries could be written to
}

// Var is a variable of the environment.
type Var struct {
	Name, Value string
	Secret      bool // the value holds the key
}

// Entry is a value in a configuration.
type Entry struct {
	Path  []string
	Value any  // text, number, or map of text to such; texts have the holes of Values
	Keyed bool // only where there is a key
}

// File is where a program keeps its configuration.
type File struct {
	Variable string // names the folder; "": the user's home
	Folder   string // in the home, where the variable is not set
	Names    []string
	TOML     bool // it is JSON otherwise
}

// Values fill the holes of texts: {url}, {host}, {model}, {key}, {context}.
type Values struct {
	URL     string // http://host:port, without a slash at its end
	Model   string
	Key     string // "": the server wants none
	Context int    // the model's; 0: it is not known
}

// NoKey is sent by programs that insist on a key, where the server wants none.
const NoKey = "axle"

// Fill puts the values into the holes of a text.
func (v Values) Fill(text string) string {
	_, host, _ := strings.Cut(v.URL, "://")
	key := v.Key
	if key == "" {
		key = NoKey
	}
	return strings.NewReplacer("{url}", v.URL, "{host}", host, "{model}", v.Model, "{key}", key,
		"{context}", decimal(v.Context)).Replace(text)
}

// FillValue is Fill for an entry's value. The texts "{context}" and "{output}", a quarter of it,
// become numbers.
func (v Values) FillValue(value any) any {
	switch x := value.(type) {
	case string:
		switch x {
		case "{context}":
			return int64(v.Context)
		case "{output}":
			return int64(v.Context / 4)
		}
		return v.Fill(x)
	case map[string]any:
		out := map[string]any{}
		for k, one := range x {
			out[v.Fill(k)] = v.FillValue(one)
		}
		return out
	}
	return value
}

// Find finds a program by its ID, or by the name of its command; nil: there is none.
func Find(id string) *Program {
	for i, p := range Table {
		if p.ID == id || p.Launch != nil && p.Launch.Command == id {
			return &Table[i]
		}
	}
	return nil
}
