package server

import (
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/axle-llm/axle/server/request"
	"github.com/axle-llm/axle/server/ui"
)

// page is the page for people, pageFile what belongs to it. Neither tells anything of this server,
// so that both need no key: a browser cannot send one with the first of them.
func (s *Server) page(x *request.Exchange) { asset(x, ui.Page()) }

func (s *Server) pageFile(x *request.Exchange) {
	name := strings.TrimPrefix(x.Param("file"), "/")
	a := ui.Find(name)
	switch {
	case name == "": // what the page names is named from /ui
		x.Writer.Header().Set("Location", "../ui")
		x.Reply().Whole(http.StatusMovedPermanently, "", nil)
	case a == nil: // of another version, most likely: the page that asks has to be loaded anew
		x.Reply().Whole(http.StatusNotFound, "text/plain; charset=utf-8", []byte("404 page not found"))
	default:
		asset(x, a)
	}
}

func asset(x *request.Exchange, a *ui.Asset) {
	h := x.Writer.Header()
	//rule:T20 TestPageFiles drop
	h.Set("Content-Security-Policy", ui.Policy)
	h.Set("Permissions-Policy", ui.Permissions)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if trusted(x.Request) {
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
	}
	h.Set("ETag", a.Tag)
	h.Set("Vary", "Accept-Encoding")
	if a.Keep {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		h.Set("Cache-Control", "no-cache")
	}
	if tagged(x.GetHeader("If-None-Match"), a.Tag) {
		x.Status(http.StatusNotModified)
		x.Writer.WriteHeaderNow()
		return
	}
	b := a.Plain
	if z := a.Gzip(); z != nil && unpacks(x.GetHeader("Accept-Encoding")) {
		h.Set("Content-Encoding", "gzip")
		b = z
	}
	x.Reply().Whole(http.StatusOK, a.Type, b)
}

// trusted says whether a browser trusts the origin of a request, as far as can be seen from here:
// the others ignore the header and complain of it in their console.
func trusted(r *http.Request) bool {
	if r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") {
		return true
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && ip.IsLoopback()
}

// tagged says whether a list of tags has ours; a proxy may have made it weak.
func tagged(list, tag string) bool {
	for t := range strings.SplitSeq(list, ",") {
		if t = strings.TrimPrefix(strings.TrimSpace(t), "W/"); t == tag || t == "*" {
			return true
		}
	}
	return false
}

// unpacks says whether a list of encodings has gzip, and not with the weight of never.
func unpacks(list string) bool {
	for e := range strings.SplitSeq(list, ",") {
		name, weight, _ := strings.Cut(e, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			q, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(weight), "q="), 64)
			return err != nil || q > 0
		}
	}
	return false
}
