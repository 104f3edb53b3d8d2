package watch

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/axle-llm/axle/cmd/internal/client"
)

// sample is one reading of /metrics: values by name, then by model ("" for the server's own).
type sample struct {
	at     time.Time
	values map[string]map[string]float64
}

func (s sample) get(name, model string) float64 {
	v, ok := s.values[name][model]
	if !ok {
		return math.NaN()
	}
	return v
}

func readSample(ctx context.Context, c *client.Client) (sample, error) {
	s := sample{at: time.Now(), values: map[string]map[string]float64{}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL.JoinPath("/metrics").String(), nil)
	if err != nil {
		return s, err
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusServiceUnavailable {
		// Its first line says why nothing can be answered.
		why, _ := bufio.NewReader(io.LimitReader(resp.Body, 16<<10)).ReadString('\n')
		if why, ok := strings.CutPrefix(strings.TrimSpace(why), "# "); ok && !strings.HasPrefix(why, "HELP") {
			return s, fmt.Errorf("%s cannot answer: %s", c.URL, why)
		}
	}
	if resp.StatusCode != http.StatusOK {
		return s, fmt.Errorf("%s answers %s to /metrics: is it axle?", c.URL, resp.Status)
	}
	return s, s.parse(io.LimitReader(resp.Body, 16<<20))
}

// parse reads Prometheus's text format, as far as our own server writes it.
func (s *sample) parse(r io.Reader) error {
	sc := bufio.NewScanner(r)
	for sc.Scan() {
		line := sc.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		cut := strings.LastIndexByte(line, ' ')
		if cut < 0 {
			continue
		}
		v, err := strconv.ParseFloat(line[cut+1:], 64)
		if err != nil {
			continue
		}
		name, labels, _ := strings.Cut(line[:cut], "{")
		model := ""
		if at := strings.Index(labels, `model="`); at >= 0 {
			if q, err := strconv.QuotedPrefix(labels[at+len("model="):]); err == nil {
				model, _ = strconv.Unquote(q)
			}
		}
		if s.values[name] == nil {
			s.values[name] = map[string]float64{}
		}
		// Series that differ in other labels (passes by kind) add up.
		s.values[name][model] += v
	}
	return sc.Err()
}
