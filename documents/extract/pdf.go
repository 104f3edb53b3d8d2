package extract

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/klippa-app/go-pdfium"
	pdfiumerrors "github.com/klippa-app/go-pdfium/errors"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/webassembly"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// pdfMemory is the most that PDFium may hold, of 64 KiB each: 128 MiB. Beyond, it finds no memory
// and gives up the page or the file.
const pdfMemory = 2048

// pdfium is the one compiled PDFium of the process, nil until the first PDF. Who takes turn has it,
// so one PDF is read at a time.
var pdfiums struct {
	turn chan struct{}
	pool pdfium.Pool
}

func init() { pdfiums.turn = make(chan struct{}, 1) }

// compiled gives PDFium, compiled by the first call, which takes seconds and cannot be stopped:
// where ctx ends meanwhile, a goroutine ends it and gives the turn back. The caller has the turn
// where there is no error.
func compiled(ctx context.Context) (pdfium.Pool, error) {
	select {
	case pdfiums.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if pdfiums.pool != nil {
		return pdfiums.pool, nil
	}
	done := make(chan error, 1)
	go func() {
		pool, err := compile()
		pdfiums.pool = pool
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			<-pdfiums.turn
			return nil, fmt.Errorf("PDFium does not start: %w", err)
		}
		return pdfiums.pool, nil
	case <-ctx.Done():
		go func() {
			<-done
			<-pdfiums.turn
		}()
		return nil, ctx.Err()
	}
}

func compile() (pdfium.Pool, error) {
	pool, err := webassembly.Init(webassembly.Config{
		MaxTotal: 1, // and none idle: each file has an instance of its own
		RuntimeConfig: wazero.NewRuntimeConfig().
			WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesExceptionHandling).
			WithMemoryLimitPages(pdfMemory).
			WithDebugInfoEnabled(false).
			WithCloseOnContextDone(true), // a page that never ends is stopped within its loop
		FSConfig: wazero.NewFSConfig(), // it sees no file of this machine; the library's default is all of them
		Stdout:   io.Discard,
		Stderr:   io.Discard,
	})
	if err != nil {
		return nil, err
	}
	debug.FreeOSMemory() // compiling leaves a quarter of a gigabyte behind, which a small board needs now
	return pool, nil
}

// Ready compiles PDFium, so that the first PDF does not wait for it.
func Ready(ctx context.Context) error {
	_, err := compiled(ctx)
	if err == nil {
		<-pdfiums.turn
	}
	return err
}

func readPDF(ctx context.Context, doc *Document, data io.ReaderAt, size int64, l Limits) error {
	pool, err := compiled(ctx)
	if err != nil {
		return err
	}
	defer func() { <-pdfiums.turn }()
	limited, cancel := context.WithTimeout(ctx, l.Time)
	defer cancel()
	in, err := pool.GetInstanceWithContext(limited)
	if err != nil {
		return fmt.Errorf("PDFium does not start: %w", err)
	}
	// Kill stops a call in its loop. It and Close must not meet.
	var killed sync.WaitGroup
	killed.Add(1)
	stop := context.AfterFunc(limited, func() {
		in.Kill() //nolint:errcheck // there is nothing else to end it with
		killed.Done()
	})
	err = pdfPages(limited, in, doc, data, size, l)
	if stop() {
		in.Close() //nolint:errcheck // its memory goes with it, whatever it says
	} else {
		killed.Wait()
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case limited.Err() != nil:
		return refuse(ErrLimit, "split it, or save it again with fewer drawings",
			"it takes more than %v to read", l.Time.Round(time.Second))
	}
	return err
}

const saveAgain = "open it in a PDF viewer, and print or save it as a new PDF"

func pdfPages(ctx context.Context, in pdfium.Pdfium, doc *Document, data io.ReaderAt, size int64, l Limits) error {
	opened, err := in.OpenDocument(&requests.OpenDocument{FileReader: io.NewSectionReader(data, 0, size), FileReaderSize: size})
	switch {
	case errors.Is(err, pdfiumerrors.ErrPassword), errors.Is(err, pdfiumerrors.ErrSecurity):
		return refuse(ErrEncrypted, unlock, "its text is only for those who have its password")
	case err != nil:
		return refuse(ErrDamaged, saveAgain, "PDFium cannot open it (%v)", err)
	}
	count, err := in.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: opened.Document})
	switch {
	case err != nil:
		return refuse(ErrDamaged, saveAgain, "PDFium cannot count its pages (%v)", err)
	case count.PageCount < 1:
		return refuse(ErrDamaged, saveAgain, "it has no pages")
	case count.PageCount > l.Pages:
		return refuse(ErrLimit, "split it", "%d pages, the limit is %d", count.PageCount, l.Pages)
	}
	if title, err := in.FPDF_GetMetaText(&requests.FPDF_GetMetaText{Document: opened.Document, Tag: "Title"}); err == nil {
		doc.Title = clean(title.Value)
	}
	text, broken := 0, error(nil)
	for i := range count.PageCount {
		if err := ctx.Err(); err != nil {
			return err
		}
		p, err := pdfPage(in, opened.Document, i)
		if err != nil {
			broken = fmt.Errorf("page %d: %w", i+1, err)
			break // PDFium's memory may be in any state now
		}
		if text += len(p); text > l.Text {
			return l.tooMuch()
		}
		doc.Pages = append(doc.Pages, Page{Number: i + 1, Text: p})
	}
	if broken != nil {
		return refuse(ErrDamaged, saveAgain, "PDFium cannot read %v", broken)
	}
	return nil
}

func pdfPage(in pdfium.Pdfium, doc references.FPDF_DOCUMENT, i int) (string, error) {
	page := requests.Page{ByIndex: &requests.PageByIndex{Document: doc, Index: i}}
	got, err := in.GetPageText(&requests.GetPageText{Page: page})
	if err != nil {
		return "", err
	}
	return pdfText(got.Text), nil
}

// pdfText joins words that were parted at the end of a line, which PDFium marks.
func pdfText(s string) string {
	for _, mark := range []string{"\ufffe", "\x02"} {
		s = strings.ReplaceAll(s, mark+"\r\n", "")
		s = strings.ReplaceAll(s, mark, "")
	}
	return strings.TrimRight(clean(s), "\n ")
}
