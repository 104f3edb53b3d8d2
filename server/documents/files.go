package documents

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"time"

	"github.com/axle-llm/axle/documents/index"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/request"
)

// file is a file as OpenAI's API has it.
type file struct {
	ID       string `json:"id"`
	Object   string `json:"object"`
	Bytes    int64  `json:"bytes"`
	Created  int64  `json:"created_at"`
	Filename string `json:"filename"`
	Purpose  string `json:"purpose"`
	Status   string `json:"status"`
}

func fileOf(f index.File) file {
	return file{f.ID, "file", f.Bytes, f.Created, f.Name, f.Purpose, "processed"}
}

// purposes are those of OpenAI's API for files that are not batches or training.
var purposes = []string{"assistants", "user_data"}

const (
	maxField  = 4 << 10
	maxFields = 16
)

// AddFile takes a file in: a form with file, and purpose before or behind it.
func (d *Documents) AddFile(x *request.Exchange) error {
	f, err := d.addFile(x)
	if err != nil {
		x.Drain(time.Now().Add(request.DrainTime))
		return err
	}
	return send(x, fileOf(f))
}

func (d *Documents) addFile(x *request.Exchange) (f index.File, err error) {
	s, err := d.shelf(x)
	if err != nil {
		return f, err
	}
	kind, params, err := mime.ParseMediaType(x.GetHeader("Content-Type"))
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return f, body.Fail(http.StatusBadRequest, "a file comes as multipart/form-data, with the fields file and purpose")
	}
	limit := d.o.Library.File
	if x.Request.ContentLength > limit+1<<20 {
		return f, d.failed(index.ErrTooLarge, "")
	}
	u := &upload{slow: x.Slow(limit + 1<<20)}
	u.parts = multipart.NewReader(u.slow, params["boundary"])
	p, err := u.until()
	if err != nil {
		return f, err
	}
	if p == nil {
		return f, body.Fail(http.StatusBadRequest, "the form has no field file")
	}
	name := cleanName(p.FileName())
	f, err = s.AddFile(name, p, func() (string, error) {
		if u.slow.Err != nil {
			return "", u.slow.Err
		}
		if more, err := u.until(); err != nil || more != nil {
			if err == nil {
				err = body.Fail(http.StatusBadRequest, "the form has two files: send one")
			}
			return "", err
		}
		return u.purpose, knownPurpose(u.purpose)
	})
	if err != nil && u.slow.Err != nil {
		return f, u.slow.Err
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return f, body.Fail(http.StatusBadRequest, "the form ends within the file: send it again")
	}
	return f, d.failed(err, "file")
}

// knownPurpose refuses a purpose that files here do not have.
func knownPurpose(purpose string) error {
	for _, p := range purposes {
		if purpose == p {
			return nil
		}
	}
	return body.Fail(http.StatusBadRequest, "purpose must be %s, got %q", body.Ours(strings.Join(purposes, " or ")), purpose)
}

// upload is a form that comes.
type upload struct {
	slow    *request.SlowBody
	parts   *multipart.Reader
	purpose string
	fields  int
}

// until reads fields up to the next file; nil: the form is over.
func (u *upload) until() (*multipart.Part, error) {
	for {
		p, err := u.parts.NextPart()
		if err == io.EOF { //nolint:errorlint // as NextPart has it
			return nil, nil
		}
		if err != nil {
			if u.slow.Err != nil {
				return nil, u.slow.Err
			}
			return nil, body.Fail(http.StatusBadRequest, "the form cannot be read: %s", err)
		}
		if u.fields++; u.fields > maxFields {
			return nil, body.Fail(http.StatusBadRequest, "the form has more than %d fields", maxFields)
		}
		if p.FormName() == "file" {
			return p, nil
		}
		b, err := io.ReadAll(io.LimitReader(p, maxField+1))
		if err != nil || len(b) > maxField {
			return nil, body.Fail(http.StatusBadRequest, "a field of the form cannot be read, or has more than %d KiB", maxField>>10)
		}
		if p.FormName() == "purpose" {
			u.purpose = string(b)
		}
	}
}

// cleanName is a file's name without folders and without what no name has.
func cleanName(name string) string {
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' || r == '\u2028' || r == '\u2029' || r >= 0x202A && r <= 0x202E || r >= 0x2066 &&
			r <= 0x2069 {
			return -1
		}
		return r
	}, strings.ToValidUTF8(name, ""))
	if name = strings.TrimSpace(name); name == "" {
		return "file"
	}
	return name
}

// Files lists the key's files.
func (d *Documents) Files(x *request.Exchange) error {
	s, err := d.shelf(x)
	if err != nil {
		return err
	}
	var all []file
	for _, f := range s.Files() {
		if p := x.Query("purpose"); p == "" || p == f.Purpose {
			all = append(all, fileOf(f))
		}
	}
	return list(x, all, func(f file) string { return f.ID })
}

// one is the shelf and the file that the path names.
func (d *Documents) one(x *request.Exchange, param string) (*index.Shelf, index.File, error) {
	s, err := d.shelf(x)
	if err != nil {
		return nil, index.File{}, err
	}
	if err := known(x.Param(param), "file"); err != nil {
		return nil, index.File{}, err
	}
	f, err := s.File(x.Param(param))
	return s, f, d.failed(err, "file")
}

// File tells of a file.
func (d *Documents) File(x *request.Exchange) error {
	_, f, err := d.one(x, "id")
	if err != nil {
		return err
	}
	return send(x, fileOf(f))
}

// DeleteFile removes a file, from every vector store too.
func (d *Documents) DeleteFile(x *request.Exchange) error {
	s, f, err := d.one(x, "id")
	if err != nil {
		return err
	}
	d.work.drop(s, "", f.ID)
	if err := s.DeleteFile(f.ID); err != nil {
		return d.failed(err, "file")
	}
	return send(x, deleted{f.ID, "file", true})
}

// Content gives a file back as it came.
func (d *Documents) Content(x *request.Exchange) error {
	s, f, err := d.one(x, "id")
	if err != nil {
		return err
	}
	r, size, err := s.Content(f.ID)
	if err != nil {
		return d.failed(err, "file")
	}
	defer r.Close()
	// A browser must never show it as a page of this server.
	x.Header("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": f.Name}))
	x.Header("X-Content-Type-Options", "nosniff")
	return x.Reply().Pour("application/octet-stream", func(w io.Writer) error {
		_, err := io.Copy(w, io.NewSectionReader(r, 0, size))
		return err
	})
}

// Page gives the text of a page of a file, so that a passage can be shown in it.
func (d *Documents) Page(x *request.Exchange) error {
	s, f, err := d.one(x, "id")
	if err != nil {
		return err
	}
	n, err := pageNumber(x.Param("page"))
	if err != nil {
		return err
	}
	p, title, pages, err := s.Page(f.ID, n)
	if err != nil {
		return d.failed(err, "page, or the file has not been read yet")
	}
	x.Reply().JSON(http.StatusOK, struct {
		File     string `json:"file_id"`
		Filename string `json:"filename"`
		Title    string `json:"title"`
		Page     int    `json:"page"`
		Pages    int    `json:"pages"`
		Number   int    `json:"number,omitempty"`
		Line     int    `json:"line,omitempty"`
		Label    string `json:"label,omitempty"`
		Text     string `json:"text"`
	}{f.ID, f.Name, title, n, pages, p.Number, p.Line, p.Label, p.Text})
	return nil
}
