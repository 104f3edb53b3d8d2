package documents

import (
	"encoding/json"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/axle-llm/axle/documents/index"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/request"
)

// vectorStore is a collection as OpenAI's API has it.
type vectorStore struct {
	ID         string            `json:"id"`
	Object     string            `json:"object"`
	Created    int64             `json:"created_at"`
	Name       string            `json:"name"`
	Bytes      int64             `json:"usage_bytes"`
	FileCounts fileCounts        `json:"file_counts"`
	Status     string            `json:"status"`
	After      *expiresAfter     `json:"expires_after"`
	Expires    *int64            `json:"expires_at"`
	Active     int64             `json:"last_active_at"`
	Metadata   map[string]string `json:"metadata"`
}

type fileCounts struct {
	InProgress int `json:"in_progress"`
	Completed  int `json:"completed"`
	Failed     int `json:"failed"`
	Cancelled  int `json:"cancelled"`
	Total      int `json:"total"`
}

type expiresAfter struct {
	Anchor string `json:"anchor"`
	Days   int    `json:"days"`
}

func storeOf(c index.Collection, n index.Counts, bytes int64) vectorStore {
	v := vectorStore{ID: c.ID, Object: "vector_store", Created: c.Created, Name: c.Name, Bytes: bytes, Status: "completed",
		Active:   c.Active,
		Metadata: c.Metadata, FileCounts: fileCounts{n.InProgress, n.Completed, n.Failed, 0, n.InProgress + n.Completed + n.Failed}}
	if n.InProgress > 0 {
		v.Status = "in_progress"
	}
	if c.Days > 0 {
		v.After, v.Expires = &expiresAfter{"last_active_at", c.Days}, new(c.Expires())
	}
	if v.Metadata == nil {
		v.Metadata = map[string]string{}
	}
	return v
}

// change is a body that makes or changes a vector store.
type change struct {
	Name     *string           `json:"name"`
	Files    []string          `json:"file_ids"`
	After    expiry            `json:"expires_after"`
	Metadata map[string]string `json:"metadata"`
	Chunking *chunking         `json:"chunking_strategy"`
}

// expiry is what a body says of expires_after: nothing, null, which ends it, or how it is.
type expiry struct {
	said bool
	is   *expiresAfter
}

// UnmarshalJSON notes that something was said, null too.
func (e *expiry) UnmarshalJSON(b []byte) error {
	e.said = true
	return json.Unmarshal(b, &e.is)
}

// chunking is how files are cut.
type chunking struct {
	Type   string `json:"type"`
	Static *sizes `json:"static,omitempty"`
}

type sizes struct {
	Tokens  int `json:"max_chunk_size_tokens"`
	Overlap int `json:"chunk_overlap_tokens"`
}

// Limits of OpenAI's API.
const (
	maxName     = 512
	maxMetadata = 16
	maxKey      = 64
	maxValue    = 512
	maxDays     = 365
	maxBatch    = 500
)

func (c *change) check() error {
	if c.Name != nil && (len(*c.Name) > maxName || !utf8.ValidString(*c.Name)) {
		return body.Fail(http.StatusBadRequest, "name has more than %d bytes", maxName)
	}
	if a := c.After.is; a != nil && (a.Anchor != "last_active_at" || a.Days < 1 || a.Days > maxDays) {
		return body.Fail(http.StatusBadRequest, "expires_after needs the anchor last_active_at, and days from 1 to %d", maxDays)
	}
	if len(c.Metadata) > maxMetadata {
		return body.Fail(http.StatusBadRequest, "metadata has %d entries, and may have %d", len(c.Metadata), maxMetadata)
	}
	for k, v := range c.Metadata {
		if k == "" || len(k) > maxKey || len(v) > maxValue {
			return body.Fail(http.StatusBadRequest, "metadata: keys have up to %d bytes, values up to %d", maxKey, maxValue)
		}
	}
	if len(c.Files) > maxBatch {
		return body.Fail(http.StatusBadRequest, "file_ids has %d entries, and may have %d", len(c.Files), maxBatch)
	}
	return nil
}

func (c *change) apply(to *index.Collection) {
	if c.Name != nil {
		to.Name = *c.Name
	}
	if c.After.said {
		to.Days = 0
	}
	if c.After.is != nil {
		to.Days = c.After.is.Days
	}
	if c.Metadata != nil {
		to.Metadata = c.Metadata
	}
}

// cutting is how a request wants files cut.
func (c *chunking) cutting() (index.Cutting, error) {
	switch {
	case c == nil || c.Type == "auto" || c.Type == "":
		return index.DefaultCutting, nil
	case c.Type != "static" || c.Static == nil:
		return index.Cutting{}, body.Fail(http.StatusBadRequest, "chunking_strategy must be auto, or static with its sizes")
	case c.Static.Tokens < index.LeastTokens || c.Static.Tokens > index.MostTokens:
		return index.Cutting{}, body.Fail(http.StatusBadRequest, "max_chunk_size_tokens must be from %d to %d, got %d", index.LeastTokens,
			index.MostTokens, c.Static.Tokens)
	case c.Static.Overlap < 0 || c.Static.Overlap > c.Static.Tokens/2:
		return index.Cutting{}, body.Fail(http.StatusBadRequest, "chunk_overlap_tokens must be from 0 to half of "+
			"max_chunk_size_tokens, got %d",
			c.Static.Overlap)
	}
	return index.Cutting{Tokens: c.Static.Tokens, Overlap: c.Static.Overlap}, nil
}

// Create makes a vector store, and has files indexed in it.
func (d *Documents) Create(x *request.Exchange) error {
	s, err := d.shelf(x)
	if err != nil {
		return err
	}
	var c change
	if err := decode(x, &c); err != nil {
		return err
	}
	cut, err := c.Chunking.cutting()
	if err != nil {
		return err
	}
	for _, f := range c.Files { // before anything is made
		if _, err := s.File(f); err != nil {
			return d.failed(err, "file")
		}
	}
	var col index.Collection
	c.apply(&col)
	if col, err = s.Create(col); err != nil {
		return d.failed(err, "vector store")
	}
	for _, f := range c.Files {
		if _, err := d.attach(x, s, col.ID, f, nil, cut); err != nil {
			d.work.drop(s, col.ID, "")
			_ = s.Delete(col.ID) // the client was not told its id
			return err
		}
	}
	return d.tell(x, s, col.ID)
}

// decode reads a small body that may be missing.
func decode(x *request.Exchange, c *change) error {
	if x.Request.ContentLength != 0 {
		if err := x.Decode(c); err != nil {
			return err
		}
	}
	return c.check()
}

// tell answers with a vector store.
func (d *Documents) tell(x *request.Exchange, s *index.Shelf, id string) error {
	c, n, bytes, err := s.Collection(id)
	if err != nil {
		return d.failed(err, "vector store")
	}
	return send(x, storeOf(c, n, bytes))
}

// store is the shelf and the id of the vector store that the path names.
func (d *Documents) store(x *request.Exchange) (*index.Shelf, string, error) {
	s, err := d.shelf(x)
	if err != nil {
		return nil, "", err
	}
	id := x.Param("id")
	if err := known(id, "vector store"); err != nil {
		return nil, "", err
	}
	_, _, _, err = s.Collection(id)
	return s, id, d.failed(err, "vector store")
}

// Stores lists the key's vector stores.
func (d *Documents) Stores(x *request.Exchange) error {
	s, err := d.shelf(x)
	if err != nil {
		return err
	}
	var all []vectorStore
	for _, id := range s.Collections() {
		if c, n, bytes, err := s.Collection(id); err == nil {
			all = append(all, storeOf(c, n, bytes))
		}
	}
	return list(x, all, func(v vectorStore) string { return v.ID })
}

// Store tells of a vector store.
func (d *Documents) Store(x *request.Exchange) error {
	s, id, err := d.store(x)
	if err != nil {
		return err
	}
	return d.tell(x, s, id)
}

// Update changes a vector store.
func (d *Documents) Update(x *request.Exchange) error {
	s, id, err := d.store(x)
	if err != nil {
		return err
	}
	var c change
	if err := decode(x, &c); err != nil {
		return err
	}
	if err := s.Update(id, c.apply); err != nil {
		return d.failed(err, "vector store")
	}
	return d.tell(x, s, id)
}

// Delete removes a vector store. Its files stay.
func (d *Documents) Delete(x *request.Exchange) error {
	s, id, err := d.store(x)
	if err != nil {
		return err
	}
	d.work.drop(s, id, "")
	if err := s.Delete(id); err != nil {
		return d.failed(err, "vector store")
	}
	return send(x, deleted{id, "vector_store.deleted", true})
}

// storeFile is a file of a vector store as OpenAI's API has it.
type storeFile struct {
	ID         string         `json:"id"`
	Object     string         `json:"object"`
	Bytes      int64          `json:"usage_bytes"`
	Created    int64          `json:"created_at"`
	Store      string         `json:"vector_store_id"`
	Status     index.Status   `json:"status"`
	LastError  *lastError     `json:"last_error"`
	Chunking   chunking       `json:"chunking_strategy"`
	Attributes map[string]any `json:"attributes"`
	Filename   string         `json:"filename,omitempty"` // beyond OpenAI's, as are the two below
	Passages   int            `json:"passages"`
	Model      string         `json:"embedding_model,omitempty"`
}

type lastError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func entryOf(s *index.Shelf, store string, e index.Entry) storeFile {
	out := storeFile{ID: e.File, Object: "vector_store.file", Bytes: e.Bytes, Created: e.Created, Store: store, Status: e.Status,
		Chunking: chunking{"static", &sizes{e.Cutting.Tokens, e.Cutting.Overlap}}, Attributes: e.Attributes, Passages: e.Passages,
		Model: e.Model}
	if e.Status == index.Failed {
		out.LastError = &lastError{e.Code, e.Message}
	}
	if out.Attributes == nil {
		out.Attributes = map[string]any{}
	}
	if f, err := s.File(e.File); err == nil {
		out.Filename = f.Name
	}
	return out
}

// checkAttributes holds attributes to OpenAI's limits.
func checkAttributes(a map[string]any) error {
	if len(a) > maxMetadata {
		return body.Fail(http.StatusBadRequest, "attributes has %d entries, and may have %d", len(a), maxMetadata)
	}
	for k, v := range a {
		s, isText := v.(string)
		_, isNumber := v.(float64)
		_, isBool := v.(bool)
		if k == "" || len(k) > maxKey || !isText && !isNumber && !isBool || len(s) > maxValue {
			return body.Fail(http.StatusBadRequest, "attributes: keys have up to %d bytes; values are texts of up to %d bytes, numbers or "+
				"booleans", maxKey, maxValue)
		}
	}
	return nil
}

// Attach puts a file into a vector store.
func (d *Documents) Attach(x *request.Exchange) error {
	s, id, err := d.store(x)
	if err != nil {
		return err
	}
	var r struct {
		File       string         `json:"file_id"`
		Attributes map[string]any `json:"attributes"`
		Chunking   *chunking      `json:"chunking_strategy"`
	}
	if err := x.Decode(&r); err != nil {
		return err
	}
	cut, err := r.Chunking.cutting()
	if err == nil {
		err = checkAttributes(r.Attributes)
	}
	if err != nil {
		return err
	}
	e, err := d.attach(x, s, id, r.File, r.Attributes, cut)
	if err != nil {
		return err
	}
	return send(x, entryOf(s, id, e))
}

func (d *Documents) attach(x *request.Exchange, s *index.Shelf, id, file string, attributes map[string]any, c index.Cutting) (
	index.Entry, error,
) {
	d.work.drop(s, id, file)
	e, err := s.Attach(id, file, attributes, c)
	if err != nil {
		return e, d.failed(err, "file")
	}
	d.work.add(job{turn: x.Owner(), shelf: s, store: id, file: file})
	return e, nil
}

// entry is the file of a vector store that the path names.
func (d *Documents) entry(x *request.Exchange) (*index.Shelf, string, index.Entry, error) {
	s, id, err := d.store(x)
	if err != nil {
		return nil, "", index.Entry{}, err
	}
	if err := known(x.Param("file"), "file"); err != nil {
		return nil, "", index.Entry{}, err
	}
	e, err := s.Entry(id, x.Param("file"))
	return s, id, e, d.failed(err, "file in this vector store")
}

// Entries lists the files of a vector store.
func (d *Documents) Entries(x *request.Exchange) error {
	s, id, err := d.store(x)
	if err != nil {
		return err
	}
	entries, err := s.Entries(id)
	if err != nil {
		return d.failed(err, "vector store")
	}
	var all []storeFile
	for _, e := range entries {
		if f := x.Query("filter"); f == "" || f == string(e.Status) {
			all = append(all, entryOf(s, id, e))
		}
	}
	return list(x, all, func(f storeFile) string { return f.ID })
}

// Entry tells of a file of a vector store.
func (d *Documents) Entry(x *request.Exchange) error {
	s, id, e, err := d.entry(x)
	if err != nil {
		return err
	}
	return send(x, entryOf(s, id, e))
}

// SetAttributes changes the attributes of a file of a vector store.
func (d *Documents) SetAttributes(x *request.Exchange) error {
	s, id, e, err := d.entry(x)
	if err != nil {
		return err
	}
	var r struct {
		Attributes map[string]any `json:"attributes"`
	}
	if err := x.Decode(&r); err != nil {
		return err
	}
	if err := checkAttributes(r.Attributes); err != nil {
		return err
	}
	if e, err = s.SetAttributes(id, e.File, r.Attributes); err != nil {
		return d.failed(err, "file in this vector store")
	}
	return send(x, entryOf(s, id, e))
}

// Detach takes a file out of a vector store. The file stays.
func (d *Documents) Detach(x *request.Exchange) error {
	s, id, e, err := d.entry(x)
	if err != nil {
		return err
	}
	d.work.drop(s, id, e.File)
	if err := s.Detach(id, e.File); err != nil {
		return d.failed(err, "file in this vector store")
	}
	return send(x, deleted{e.File, "vector_store.file.deleted", true})
}

// EntryContent gives the text that was read of a file, a part for each page.
func (d *Documents) EntryContent(x *request.Exchange) error {
	s, _, e, err := d.entry(x)
	if err != nil {
		return err
	}
	doc, err := s.Document(e.File)
	if err != nil {
		return d.failed(err, "text: the file has not been read yet")
	}
	out := struct {
		Object  string    `json:"object"`
		Data    []content `json:"data"`
		HasMore bool      `json:"has_more"`
		Next    *string   `json:"next_page"`
	}{Object: "vector_store.file_content.page", Data: []content{}}
	for _, p := range doc.Pages {
		out.Data = append(out.Data, content{"text", p.Text})
	}
	return send(x, out)
}

// pageNumber reads the number of a page in a path.
func pageNumber(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > 1<<20 {
		return 0, body.Fail(http.StatusBadRequest, "a page is a number from 0 on, got %s", s)
	}
	return n, nil
}
