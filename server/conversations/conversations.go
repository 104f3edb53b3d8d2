// Package conversations answers requests for the conversations that a server keeps: what changed
// since a device last asked, records to append, pictures, deletion, and all of it as one file. What
// is kept, and how, is package journal's.
//
// A conversation belongs to its key's owner, and a request reaches no other's: a name that is
// another's is as unknown as one that does not exist. On a server without keys all who ask are one
// owner.
//
// A [Room] may be used from any goroutine. Its Close closes the folder.
package conversations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/conversations/journal"
	"github.com/axle-llm/axle/server/request"
)

// Limits of a request.
const (
	maxBody = 8 << 20          // bytes of records
	maxFile = 32 << 20         // bytes of a file that is taken in
	maxWait = 25 * time.Second // less than a write may take
	perPage = 24 << 20         // memory for a page: its records, and their JSON twice
)

// Room is the conversations of a server. The zero Room keeps none, and says so.
type Room struct {
	Folder *journal.Folder
}

// Close ends the use of the folder.
func (r *Room) Close() error {
	if r.Folder == nil {
		return nil
	}
	return r.Folder.Close()
}

// owner is whose conversations a request is for.
func (r *Room) owner(x *request.Exchange) (*journal.Owner, error) {
	x.Header("Cache-Control", "no-store")
	if r.Folder == nil {
		return nil, body.Fail(http.StatusNotFound, "this server keeps no conversations: start it with --conversations DIR")
	}
	//rule:T17 ./server TestConversationsOfKeys x.Owner() => ""
	return r.Folder.Owner(x.Owner())
}

// status gives an error of the folder its status.
func status(err error) error {
	var refused *journal.Refusal
	switch {
	case errors.As(err, &refused) && refused.Full:
		return request.Because(http.StatusInsufficientStorage, err)
	case errors.As(err, &refused):
		return request.Because(http.StatusBadRequest, err)
	case errors.Is(err, journal.ErrGone):
		return request.Because(http.StatusGone, err)
	case errors.Is(err, journal.ErrNone), errors.Is(err, journal.ErrNoBlob):
		return request.Because(http.StatusNotFound, err)
	case errors.Is(err, journal.ErrClosed):
		return request.Because(http.StatusServiceUnavailable, err)
	case err != nil && !request.Own(err) && !errors.As(err, new(*body.Failure)) && !errors.Is(err, context.Canceled):
		return request.Because(http.StatusInternalServerError, err)
	}
	return err
}

// number reads a parameter that is a whole number, 0 where it is not there.
func number(x *request.Exchange, name string, most uint64) (uint64, error) {
	s := x.Query(name)
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n > most {
		return 0, body.Fail(http.StatusBadRequest, "%s is a whole number from 0 to %d", name, most)
	}
	return n, nil
}

// page is what a device is told of changes.
type page struct {
	journal.Page
	Used int64 `json:"used"` // bytes
	Most int64 `json:"most"`
}

// Changes answers what changed after the place that since names; with wait, it waits that long
// for something to change.
func (r *Room) Changes(x *request.Exchange) error {
	since, err := number(x, "since", 1<<62)
	if err != nil {
		return err
	}
	wait, err := number(x, "wait", uint64(maxWait/time.Second))
	if err != nil {
		return err
	}
	round, err := number(x, "round", 1<<31)
	if err != nil {
		return err
	}
	o, err := r.owner(x)
	if err != nil {
		return err
	}
	if wait > 0 {
		ctx, stop := context.WithTimeout(x.Ctx(), time.Duration(wait)*time.Second)
		err = o.Wait(ctx, x.Query("owner"), int(round), since)
		stop()
		if err := errors.Join(err, x.Ctx().Err()); err != nil {
			return status(err)
		}
	}
	if err := x.Reserve(perPage); err != nil {
		return err
	}
	var p page
	if p.Page, err = o.Since(since); err == nil {
		p.Used, p.Most, err = o.Used()
	}
	if err != nil {
		return status(err)
	}
	x.Reply().JSON(http.StatusOK, p)
	return nil
}

// Chat answers one conversation: the newest version of each of its things, or all versions.
func (r *Room) Chat(x *request.Exchange) error {
	o, err := r.owner(x)
	if err != nil {
		return err
	}
	list, err := r.records(x, o, x.Param("id"), x.Query("history") == "1")
	if err != nil {
		return status(err)
	}
	x.Reply().JSON(http.StatusOK, map[string]any{"records": list})
	return nil
}

// records reads a conversation, after taking room for it.
func (r *Room) records(x *request.Exchange, o *journal.Owner, id string, history bool) ([]journal.Record, error) {
	n, err := o.Bytes(id)
	if err != nil {
		return nil, err
	}
	if err := x.Reserve(3*n + pictureRoom); err != nil {
		return nil, err
	}
	return o.Chat(id, history)
}

// read reads a body into memory. Room is taken for it first.
func read(x *request.Exchange, limit int) ([]byte, error) {
	if x.Request.ContentLength > int64(limit) {
		x.Drain(x.Began().Add(request.DrainTime))
		return nil, request.TooLarge(int64(limit))
	}
	slow := x.Slow(int64(limit))
	b, whole, room, err := x.ReadPart(slow, limit)
	switch {
	case slow.Err != nil:
		return nil, slow.Err
	case room != nil:
		x.Drain(x.Began().Add(request.DrainTime))
		return nil, room
	case err != nil:
		return nil, request.Error(http.StatusBadRequest, err.Error())
	case !whole:
		return nil, request.TooLarge(int64(limit))
	}
	return b, nil
}

// appended answers records that were sent: the places of those that were kept, and why no more
// were.
type appended struct {
	Seqs     []uint64  `json:"seqs"`
	Conflict *conflict `json:"conflict,omitempty"` // the next one follows another version than the newest
	Lacks    string    `json:"lacks,omitempty"`    // the next one has a picture that is not there
	Error    string    `json:"refused,omitempty"`  // the next one is not kept, and why
}

type conflict struct {
	Key string `json:"key"`
	Seq uint64 `json:"seq"`
}

// Append keeps records of a conversation.
func (r *Room) Append(x *request.Exchange) error {
	o, err := r.owner(x)
	if err != nil {
		return err
	}
	b, err := read(x, maxBody)
	if err != nil {
		return err
	}
	if err := x.Reserve(4 * int64(len(b))); err != nil {
		return err
	}
	var sent struct {
		Records []journal.Record `json:"records"`
	}
	if err := body.Check(b); err != nil {
		return err
	}
	if err := body.Decode(b, &sent); err != nil {
		return err
	}
	var a appended
	a.Seqs, err = o.Append(x.Param("id"), sent.Records)
	if a, err = told(a, err); err != nil {
		return status(err)
	}
	x.Reply().JSON(http.StatusOK, a)
	return nil
}

// told puts into the answer why not all records were kept.
func told(a appended, err error) (appended, error) {
	var c *journal.Conflict
	var l *journal.Lacks
	switch {
	case errors.As(err, &c):
		a.Conflict, err = &conflict{c.Key, c.Seq}, nil
	case errors.As(err, &l):
		a.Lacks, err = l.Blob, nil
	case errors.As(err, new(*journal.Refusal)) && len(a.Seqs) > 0:
		a.Error, err = err.Error(), nil
	}
	if a.Seqs == nil {
		a.Seqs = []uint64{}
	}
	return a, err
}

// Delete deletes a conversation.
func (r *Room) Delete(x *request.Exchange) error {
	o, err := r.owner(x)
	if err == nil {
		err = status(o.Delete(x.Param("id")))
	}
	if err == nil {
		x.Reply().JSON(http.StatusOK, struct{}{})
	}
	return err
}

// Forget deletes all conversations of the owner from the server. Devices keep theirs.
func (r *Room) Forget(x *request.Exchange) error {
	o, err := r.owner(x)
	if err == nil {
		err = status(o.Forget())
	}
	if err == nil {
		x.Reply().JSON(http.StatusOK, struct{}{})
	}
	return err
}

// Picture answers a picture's bytes.
func (r *Room) Picture(x *request.Exchange) error {
	o, err := r.owner(x)
	if err != nil {
		return err
	}
	if err := x.Reserve(2 * journal.MaxBlob); err != nil {
		return err
	}
	b, err := o.Blob(x.Param("sha256"))
	if err != nil {
		return status(err)
	}
	x.Header("X-Content-Type-Options", "nosniff")
	x.Header("Content-Disposition", "attachment")
	x.Reply().Whole(http.StatusOK, "application/octet-stream", b)
	return nil
}

// PutPicture keeps a picture.
func (r *Room) PutPicture(x *request.Exchange) error {
	o, err := r.owner(x)
	if err != nil {
		return err
	}
	b, err := read(x, journal.MaxBlob)
	if err != nil {
		return err
	}
	if err := o.PutBlob(x.Param("sha256"), b); err != nil {
		return status(err)
	}
	x.Reply().JSON(http.StatusOK, struct{}{})
	return nil
}

// thing is what a body is of, as far as the server looks into it.
func thing(b json.RawMessage) (map[string]json.RawMessage, error) {
	var o map[string]json.RawMessage
	if err := json.Unmarshal(b, &o); err != nil || o == nil {
		return nil, fmt.Errorf("no JSON object")
	}
	return o, nil
}
