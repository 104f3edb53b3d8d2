package server

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/axle-llm/axle/server/answer"
	"github.com/axle-llm/axle/server/request"
)

// form is where formKey leaves the form that it has begun to read.
const form = "form"

// formKey looks for the key of a request that came without one in a header: in the field api_key of
// its form, before the picture. A picture of a client without a key is never read.
func (s *Server) formKey(c *gin.Context) {
	x := request.Of(c)
	if s.o.Keys == nil || x.Who() != nil {
		return
	}
	f, err := answer.OpenPicture(x)
	if err == nil {
		//rule:T6 TestDetectionKeys key != nil => true
		if key := s.o.Keys.Find(f.Key()); key != nil {
			c.Request = c.Request.WithContext(request.WithKey(x.Ctx(), key))
			c.Set(form, f)
			return
		}
	}
	x.Drain(time.Now().Add(request.DrainTime))
	x.Header("WWW-Authenticate", `Bearer realm="axle"`)
	x.Fail(request.Error(http.StatusUnauthorized, noFormKey))
	c.Abort()
}

const noFormKey = "unauthorized: this server wants a key, as the field api_key before the image, or as Authorization: Bearer KEY"

// openedForm is the form that formKey has begun to read; nil: it has not.
func openedForm(x *request.Exchange) *answer.PictureForm {
	f, _ := x.Get(form)
	opened, _ := f.(*answer.PictureForm)
	return opened
}
