package ask

import "fmt"

// Note is what a schema asks for and an answer is not held to.
type Note struct {
	Where   string // a JSON pointer into the schema; with tools the tool's name stands before it
	Keyword string // the keyword that is left out; empty where all but the type is
	Msg     string
	Place   string // Where with names that the schema chose left out: for logs, which hold no client's words
}

func (n Note) String() string {
	where := n.Where
	if where == "" {
		where = "#"
	}
	if n.Keyword != "" {
		return fmt.Sprintf("%s: %s: %s", where, n.Keyword, n.Msg)
	}
	return fmt.Sprintf("%s: %s", where, n.Msg)
}
