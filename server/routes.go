package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/anthropic"
	"github.com/axle-llm/axle/server/deepstack"
	"github.com/axle-llm/axle/server/ollama"
	"github.com/axle-llm/axle/server/openai"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/server/request"
)

// route is a path's method, who may ask it, and what answers.
type route struct {
	method, path string
	role         access.Role
	frame        frame
	answer       gin.HandlerFunc
}

// frame is what a route is framed by.
type frame int

const (
	plain   frame = iota // nothing
	sealed               // nothing; no key lets anyone in, but a seal that it checks itself
	worked               // the orderly end waits for it, a server that ends refuses it, and the limits of keys that ask count it
	lasting              // the orderly end waits for it; what it begins outlives it, and counts itself against its key's limits
	asked                // and a model answers: it is listed while it runs, and its owner can end it
	keyed                // and its key may be a field of its form
)

// dialects are those in which models are asked.
func dialects() []prompt.Dialect {
	return append([]prompt.Dialect{ollama.Dialect(), new(openai.API).Dialect(), anthropic.Dialect(), deepstack.Dialect()},
		openai.Beside()...)
}

// table is every route of the main port: the server's own, and those of the dialects. A route
// without a role does not start: see mount.
func (s *Server) table() []route {
	h, try, models, answers, views := request.Handler, request.Try, s.manager, s.answers, s.views
	const anyone, ask, admin = access.Anyone, access.Ask, access.Admin
	table := []route{
		{"HEAD", "/", anyone, plain, h(s.root)},
		{"GET", "/", anyone, plain, h(s.root)},
		{"HEAD", "/api/version", ask, plain, h(s.version)},
		{"GET", "/api/version", ask, plain, h(s.version)},
		{"GET", "/api/status", ask, plain, h(s.cloud)},
		{"HEAD", "/api/tags", ask, plain, try(models.Tags)},
		{"GET", "/api/tags", ask, plain, try(models.Tags)},
		{"GET", "/api/ps", ask, plain, h(models.Running)},
		{"POST", "/api/show", ask, plain, try(models.Show)},
		{"POST", "/api/embed", ask, asked, try(answers.Vectors(ollama.DecodeEmbed))},
		{"POST", "/api/embeddings", ask, asked, try(answers.Vectors(ollama.DecodeEmbeddings))},
		{"POST", "/api/rerank", ask, asked, try(answers.Rerank(ollama.DecodeRerank))},

		{"POST", "/api/create", admin, worked, try(models.Create)},
		{"POST", "/api/copy", admin, worked, try(models.Copy)},
		{"POST", "/api/pull", admin, worked, try(models.Pull)},
		{"POST", "/api/push", admin, worked, try(models.Push)},
		{"DELETE", "/api/delete", admin, worked, try(models.Delete)},
		{"HEAD", "/api/blobs/:digest", admin, plain, try(models.HasBlob)},
		{"POST", "/api/blobs/:digest", admin, worked, try(models.PutBlob)},

		{"POST", "/api/me", ask, plain, try(s.account)},
		{"POST", "/api/signout", ask, plain, try(s.signout)},
		{"DELETE", "/api/user/keys/:key", ask, plain, try(s.signout)},
		{"POST", "/api/experimental/web_search", ask, plain, s.noCloud("web search is unavailable")},
		{"POST", "/api/experimental/web_fetch", ask, plain, s.noCloud("web fetch is unavailable")},
		{"GET", "/api/experimental/model-recommendations", ask, plain, h(s.recommendations)},

		{"POST", "/v1/embeddings", ask, asked, try(answers.Vectors(openai.DecodeEmbeddings))},
		{"POST", "/v1/rerank", ask, asked, try(answers.Rerank(ollama.DecodeRerank))},
		{"GET", "/v1/models", ask, plain, try(models.OpenAIModels)},
		{"GET", "/v1/models/*model", ask, plain, try(models.OpenAIModel)},
		{"POST", "/v1/audio/transcriptions", ask, asked, try(answers.Transcriptions(openai.NewTranscription))},
		{"POST", "/v1/audio/translations", ask, asked, try(answers.Transcriptions(openai.NewTranslation))},
		{"POST", "/v1/audio/speech", ask, asked, try(answers.Speak(openai.DecodeSpeech))},
		{"GET", "/v1/audio/voices", ask, plain, try(s.voices)},
		{"GET", "/v1/audio/models", ask, plain, try(s.speakers)},

		{"GET", "/v1/realtime", ask, plain, try(s.realtime)},

		{"POST", openai.DetokenizePath, ask, worked, try(answers.Detokenize(openai.DecodeDetokenize, openai.Detokenized))},

		{"POST", "/v1/images/generations", ask, asked, try(answers.Drawings(openai.DecodeDrawing))},
		{"POST", "/v1/images/edits", ask, asked, try(answers.Edits(openai.NewEdit, openai.DecodeEdit, "mask", openai.ErrMask))},

		{"POST", deepstack.Path, ask, keyed, try(answers.Detections(deepstack.Type, deepstack.Least, deepstack.Answer, openedForm))},

		{"GET", "/api/axle/state", ask, plain, try(views.State)},
		{"GET", "/api/axle/cells", ask, plain, try(views.Cells)},
		{"DELETE", "/api/axle/streams/:id", ask, plain, try(views.Stop)},
		{"GET", "/api/axle/catalogue", ask, plain, try(views.Catalogue)},
		{"GET", "/api/axle/store", ask, plain, try(models.Where)},
		{"GET", "/api/axle/peers", ask, plain, try(s.servers)},
		{"GET", "/api/axle/connect", ask, plain, h(s.connect)},
		{"GET", "/api/axle/bench", ask, plain, try(views.Bench)},
		{"POST", "/api/axle/bench", admin, worked, try(views.Start)},
		{"DELETE", "/api/axle/bench", admin, plain, try(views.End)},

		{"GET", "/api/axle/conversations", ask, plain, try(s.o.Conversations.Changes)},
		{"DELETE", "/api/axle/conversations", ask, worked, try(s.o.Conversations.Forget)},
		{"GET", "/api/axle/conversations/:id", ask, plain, try(s.o.Conversations.Chat)},
		{"POST", "/api/axle/conversations/:id", ask, worked, try(s.o.Conversations.Append)},
		{"DELETE", "/api/axle/conversations/:id", ask, worked, try(s.o.Conversations.Delete)},
		{"GET", "/api/axle/conversation-pictures/:sha256", ask, plain, try(s.o.Conversations.Picture)},
		{"PUT", "/api/axle/conversation-pictures/:sha256", ask, worked, try(s.o.Conversations.PutPicture)},
		{"GET", "/api/axle/conversation-file", ask, plain, try(s.o.Conversations.Export)},
		{"POST", "/api/axle/conversation-file", ask, worked, try(s.o.Conversations.Import)},
		{"GET", "/api/axle/tools", ask, plain, try(s.toolServers)},
		{"GET", "/api/axle/tools/:server", ask, worked, try(s.listTools)},
		{"POST", "/api/axle/tools/:server", ask, worked, try(s.callTool)},
		{"GET", summaryPath, anyone, sealed, h(s.tellPeer)},
		{"GET", peerPath, anyone, sealed, h(s.peerRows)},
		{"HEAD", peerPath, anyone, sealed, h(s.peerRows)},
		{"PUT", peerPath, anyone, sealed, h(s.peerRows)},

		{"GET", "/health", anyone, plain, h(s.health)},
		{"HEAD", "/health", anyone, plain, h(s.health)},
		{"GET", "/livez", anyone, plain, h(s.live)},
		{"HEAD", "/livez", anyone, plain, h(s.live)},
		{"GET", "/readyz", anyone, plain, h(s.ready)},
		{"HEAD", "/readyz", anyone, plain, h(s.ready)},
		{"GET", "/metrics", ask, plain, h(s.metricsPage)},
		{"GET", "/ui", anyone, plain, h(s.page)},
		{"HEAD", "/ui", anyone, plain, h(s.page)},
		{"GET", "/ui/*file", anyone, plain, h(s.pageFile)},
	}
	table = append(table, s.documents()...)
	for _, d := range s.shared.Dialects {
		for _, r := range d.Routes {
			if r.Tokens != nil {
				table = append(table, route{"POST", r.Path, r.Role, worked, try(answers.Tokens(r))})
				continue
			}
			table = append(table, route{"POST", r.Path, r.Role, asked, try(answers.Prompt(r))})
		}
	}
	return append(table, s.unbuilt()...)
}

// documents are the routes of files and vector stores.
func (s *Server) documents() []route {
	try, d := request.Try, s.docs
	const ask = access.Ask
	return []route{
		{"POST", "/v1/files", ask, worked, try(d.AddFile)},
		{"GET", "/v1/files", ask, plain, try(d.Files)},
		{"GET", "/v1/files/:id", ask, plain, try(d.File)},
		{"GET", "/v1/files/:id/content", ask, plain, try(d.Content)},
		{"DELETE", "/v1/files/:id", ask, worked, try(d.DeleteFile)},

		{"POST", "/v1/vector_stores", ask, worked, try(d.Create)},
		{"GET", "/v1/vector_stores", ask, plain, try(d.Stores)},
		{"GET", "/v1/vector_stores/:id", ask, plain, try(d.Store)},
		{"POST", "/v1/vector_stores/:id", ask, worked, try(d.Update)},
		{"DELETE", "/v1/vector_stores/:id", ask, worked, try(d.Delete)},
		{"POST", "/v1/vector_stores/:id/files", ask, worked, try(d.Attach)},
		{"GET", "/v1/vector_stores/:id/files", ask, plain, try(d.Entries)},
		{"GET", "/v1/vector_stores/:id/files/:file", ask, plain, try(d.Entry)},
		{"POST", "/v1/vector_stores/:id/files/:file", ask, worked, try(d.SetAttributes)},
		{"DELETE", "/v1/vector_stores/:id/files/:file", ask, worked, try(d.Detach)},
		{"GET", "/v1/vector_stores/:id/files/:file/content", ask, plain, try(d.EntryContent)},
		{"POST", "/v1/vector_stores/:id/search", ask, worked, try(d.Search)},

		{"GET", "/api/axle/documents", ask, plain, try(d.State)},
		{"GET", "/api/axle/documents/files/:id/pages/:page", ask, plain, try(d.Page)},
	}
}

// router leads to the routes of a table. dialect is that of errors; nil: the path's.
func (s *Server) router(dialect *prompt.Dialect, table []route) *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.Use(s.logged(dialect), s.recovered)
	s.mount(r, table)
	return r
}

// mount gives the router a table's routes. One without a role or an answer is a mistake of ours
// that would let anyone in: the server does not start.
func (s *Server) mount(r *gin.Engine, table []route) {
	for _, t := range table {
		//rule:T6 TestRouteWithoutRole t.role < access.Anyone => false
		if t.answer == nil || t.role < access.Anyone || t.role > access.Admin {
			panic(fmt.Sprintf("server: %s %s has no answer, or it is not said who may ask it: its role is %v", t.method, t.path, t.role))
		}
		chain := []gin.HandlerFunc{s.may(t.role)}
		if t.frame == keyed {
			chain = []gin.HandlerFunc{s.formKey, s.may(t.role)}
		}
		if t.frame >= worked {
			chain = append(chain, s.work)
		}
		if t.frame >= worked && t.frame != lasting && t.role == access.Ask {
			chain = append(chain, s.limited)
		}
		if t.frame >= asked {
			chain = append(chain, s.views.Seen)
		}
		r.Handle(t.method, t.path, append(chain, t.answer)...)
	}
}

// may refuses the keys that have not the role. A server without keys lets everyone do everything.
func (s *Server) may(role access.Role) gin.HandlerFunc {
	return func(c *gin.Context) {
		x := request.Of(c)
		switch key := x.Who(); {
		//rule:T6 TestRoles$ role == access.Anyone, key != nil && key.May(role) => true
		case s.o.Keys == nil, role == access.Anyone, key != nil && key.May(role):
			return
		case key == nil: // the guard lets none in: a second bolt
			x.Fail(request.Error(http.StatusUnauthorized, noKey))
		default:
			x.Fail(request.Forbidden("this"))
		}
		c.Abort()
	}
}

// limited counts a request against its key's limits, and refuses one beyond them.
func (s *Server) limited(c *gin.Context) {
	x := request.Of(c)
	end, err := x.Who().Begin()
	if err != nil {
		x.Drain(time.Now().Add(request.DrainTime))
		x.Fail(err)
		c.Abort()
		return
	}
	defer end()
	c.Next()
}

// free says which paths of a table need no key, to look at them.
func free(table []route) func(path string) bool {
	var patterns []string
	for _, t := range table {
		if t.role == access.Anyone && t.method == http.MethodGet {
			patterns = append(patterns, t.path)
		}
	}
	return func(path string) bool {
		//rule:T20 TestPageFiles !strings.Contains(path, "..") && =>
		return !strings.Contains(path, "..") && slices.ContainsFunc(patterns, func(p string) bool { return leads(p, path) })
	}
}

// formed says which routes of a table are answered though there is no key in the header: it is in
// the form, or the route has a seal instead.
func formed(table []route) func(method, path string) bool {
	return func(method, path string) bool {
		return slices.ContainsFunc(table, func(t route) bool {
			return (t.frame == keyed && t.path == path || t.frame == sealed && leads(t.path, path)) && t.method == method
		})
	}
}

// methods says which methods a path knows, in the router's order; none where the path is not known.
func methods(routes gin.RoutesInfo) func(path string) string {
	return func(path string) string {
		var known []string
		for _, r := range routes {
			if !slices.Contains(known, r.Method) && leads(r.Path, path) {
				known = append(known, r.Method)
			}
		}
		return strings.Join(known, ", ")
	}
}

// leads: a route's pattern has the path.
func leads(pattern, path string) bool {
	for {
		p, prest, pmore := strings.Cut(pattern, "/")
		s, rest, more := strings.Cut(path, "/")
		switch {
		case strings.HasPrefix(p, "*"):
			return true
		case p != s && !(strings.HasPrefix(p, ":") && s != ""), pmore != more:
			return false
		case !pmore:
			return true
		}
		pattern, path = prest, rest
	}
}
