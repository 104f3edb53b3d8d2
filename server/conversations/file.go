package conversations

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/conversations/journal"
	"github.com/axle-llm/axle/server/request"
)

// This file is all conversations as one file, in the form that the page saves and takes in. Its
// pictures are inside.

const (
	kind        = "axle-chats"
	metaKey     = "chat"   // of the record that has a conversation's title, settings and head
	pictureRoom = 48 << 20 // memory for a picture of the largest size, and its Base64
	maxPictures = 64       // of a turn
)

// picture is a picture of a turn: its bytes, in Base64, or on the server their name.
type picture struct {
	Type string `json:"type"`
	Name string `json:"name"`
	Data []byte `json:"data,omitempty"`
	Blob string `json:"blob,omitempty"`
}

// Export writes the owner's conversations, or with id one of them. With history each has every
// version of its things too, as the journal has them.
func (r *Room) Export(x *request.Exchange) error {
	o, err := r.owner(x)
	if err != nil {
		return err
	}
	ids := []string{x.Query("id")}
	if ids[0] == "" {
		if ids, err = o.Chats(); err != nil {
			return status(err)
		}
	} else if _, err := o.Bytes(ids[0]); err != nil {
		return status(err)
	}
	x.Header("Content-Disposition", `attachment; filename="axle.json"`)
	return status(x.Reply().Pour(request.JSON, func(w io.Writer) error {
		if _, err := fmt.Fprintf(w, "{%q:%q,%q:1,%q:[", "kind", kind, "version", "chats"); err != nil {
			return err
		}
		first := true
		for _, id := range ids {
			list, err := r.records(x, o, id, x.Query("history") == "1")
			if errors.Is(err, journal.ErrGone) || errors.Is(err, journal.ErrNone) {
				continue // it was deleted meanwhile
			}
			if err != nil {
				return err
			}
			if !first {
				if _, err := io.WriteString(w, ","); err != nil {
					return err
				}
			}
			first = false
			if err := exportChat(w, o, list, x.Query("history") == "1"); err != nil {
				return err
			}
		}
		_, err := io.WriteString(w, "]}")
		return err
	}))
}

// exportChat writes a conversation: its newest versions, and with history the records.
func exportChat(w io.Writer, o *journal.Owner, list []journal.Record, history bool) error {
	newest := map[string]journal.Record{}
	for _, r := range list {
		if newest[r.Key].Seq < r.Seq {
			newest[r.Key] = r
		}
	}
	meta := newest[metaKey].Body
	if meta == nil {
		meta = json.RawMessage(`{"title":""}`)
	}
	if _, err := fmt.Fprintf(w, "{\"chat\":%s,\"turns\":[", meta); err != nil {
		return err
	}
	delete(newest, metaKey)
	var turns []journal.Record
	for _, r := range newest {
		if !r.Gone {
			turns = append(turns, r)
		}
	}
	slices.SortFunc(turns, func(a, b journal.Record) int { return cmp.Compare(a.Key, b.Key) })
	for i, r := range turns {
		b, err := withPictures(r.Body, func(p *picture) error {
			var err error
			p.Data, err = o.Blob(p.Blob)
			p.Blob = ""
			return err
		})
		if errors.Is(err, journal.ErrNoBlob) {
			b, err = r.Body, nil // the picture is lost: what is left is the turn's words
		}
		if err == nil && i > 0 {
			_, err = io.WriteString(w, ",")
		}
		if err == nil {
			_, err = w.Write(b)
		}
		if err != nil {
			return err
		}
	}
	if _, err := io.WriteString(w, "]"); err != nil {
		return err
	}
	if history {
		b, err := json.Marshal(list)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, ",\"history\":%s", b); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "}")
	return err
}

// withPictures is a turn whose pictures were changed.
func withPictures(b json.RawMessage, change func(*picture) error) (json.RawMessage, error) {
	turn, err := thing(b)
	if err != nil || turn["images"] == nil {
		return b, err
	}
	var all []picture
	if err := json.Unmarshal(turn["images"], &all); err != nil {
		return nil, err
	}
	for i := range all {
		if err := change(&all[i]); err != nil {
			return nil, err
		}
	}
	if turn["images"], err = json.Marshal(all); err != nil {
		return nil, err
	}
	return json.Marshal(turn)
}

// taken is a conversation of a file.
type taken struct {
	id      string
	records []journal.Record
	blobs   map[string][]byte
}

// Import takes a file in. A conversation whose id is not there, and was not deleted, keeps it;
// others get a new one. Of a file with a fault nothing is taken.
func (r *Room) Import(x *request.Exchange) error {
	o, err := r.owner(x)
	if err != nil {
		return err
	}
	b, err := read(x, maxFile)
	if err != nil {
		return err
	}
	if err := x.Reserve(5 * int64(len(b))); err != nil {
		return err
	}
	all, err := parse(b)
	if err != nil {
		return body.Fail(http.StatusBadRequest, "the file holds no conversations of axle, or not whole ones: %v. Nothing of it was taken",
			err)
	}
	ids := []string{}
	for _, c := range all {
		if err = take(o, &c); err != nil {
			break
		}
		ids = append(ids, c.id)
	}
	if err != nil {
		for _, id := range ids {
			err = errors.Join(err, o.Delete(id))
		}
		return status(err)
	}
	x.Reply().JSON(http.StatusOK, map[string]any{"ids": ids})
	return nil
}

// parse reads a file.
func parse(b []byte) ([]taken, error) {
	var file struct {
		Kind  string `json:"kind"`
		Chats []struct {
			Chat  json.RawMessage   `json:"chat"`
			Turns []json.RawMessage `json:"turns"`
		} `json:"chats"`
	}
	if err := body.Check(b); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return nil, errors.New("it is no JSON of that form")
	}
	if file.Kind != kind {
		return nil, fmt.Errorf("its kind is not %q", kind)
	}
	var all []taken
	for i, c := range file.Chats {
		t := taken{blobs: map[string][]byte{}}
		meta, err := thing(c.Chat)
		var title string
		if err == nil {
			err = json.Unmarshal(meta["title"], &title)
		}
		if err != nil {
			return nil, fmt.Errorf("conversation %d has no title", i+1)
		}
		if json.Unmarshal(meta["id"], &t.id) != nil || !journal.SoundID(t.id) {
			t.id = ""
		}
		for j, turn := range c.Turns {
			r, err := t.turn(turn)
			if err != nil {
				return nil, fmt.Errorf("conversation %d, turn %d: %w", i+1, j+1, err)
			}
			t.records = append(t.records, r)
		}
		// What the conversation is called, last: it names the turn that is shown.
		t.records = append(t.records, record(metaKey, c.Chat, nil))
		all = append(all, t)
	}
	return all, nil
}

func record(key string, b json.RawMessage, blobs []string) journal.Record {
	sum := sha256.Sum256(b)
	return journal.Record{ID: hex.EncodeToString(sum[:16]), Key: key, Body: b, Blobs: blobs}
}

// turn reads a turn. Its pictures are named by their sums.
func (t *taken) turn(b json.RawMessage) (r journal.Record, err error) {
	o, err := thing(b)
	if err != nil {
		return r, err
	}
	var id, role, text string
	if json.Unmarshal(o["id"], &id) != nil || !journal.SoundID(id) || id == metaKey {
		return r, errors.New("it has no id")
	}
	if json.Unmarshal(o["role"], &role) != nil || json.Unmarshal(o["text"], &text) != nil ||
		!slices.Contains([]string{"user", "assistant", "tool"}, role) {
		return r, errors.New("it has no role or no text")
	}
	var names []string
	b, err = withPictures(b, func(p *picture) error {
		if len(names) >= maxPictures || len(p.Data) == 0 || len(p.Data) > journal.MaxBlob {
			return fmt.Errorf("pictures are at most %d, and have 1 to %d bytes", maxPictures, journal.MaxBlob)
		}
		sum := sha256.Sum256(p.Data)
		name := hex.EncodeToString(sum[:])
		t.blobs[name] = p.Data
		names = append(names, name)
		p.Data, p.Blob = nil, name
		return nil
	})
	return record(id, b, names), err
}

// take keeps a conversation.
func take(o *journal.Owner, c *taken) error {
	_, err := o.Bytes(c.id)
	if c.id == "" || !errors.Is(err, journal.ErrNone) {
		c.id = rand.Text()
	}
	for i := range c.records {
		r := &c.records[i]
		turn, err := thing(r.Body)
		if err != nil {
			return err
		}
		name := "chat"
		if r.Key == metaKey {
			name = "id"
		}
		turn[name] = json.RawMessage(`"` + c.id + `"`)
		if r.Body, err = json.Marshal(turn); err != nil {
			return err
		}
		*r = record(r.Key, bytes.Clone(r.Body), r.Blobs)
	}
	for name, b := range c.blobs {
		if err := o.PutBlob(name, b); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(c.records, journal.MaxBatch) {
		if _, err := o.Append(c.id, part); err != nil {
			return errors.Join(err, o.Delete(c.id))
		}
	}
	return nil
}
