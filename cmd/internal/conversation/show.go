package conversation

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/internal/terminal"
)

// Show prints one part of a model's description, or all of it.
func Show(w io.Writer, r *api.ShowResponse, part string, verbose bool) error {
	text := map[string]string{"license": r.License, "modelfile": r.Modelfile, "parameters": r.Parameters, "system": r.System,
		"template": r.Template}
	if part != "" {
		if !terminal.Is(w) {
			w = plain.Raw(w) // into a file as it is: a Modelfile shall be the same model
		}
		_, err := fmt.Fprintln(w, strings.TrimRight(text[part], "\n"))
		return err
	}
	section := func(name string, rows [][]string) error {
		if len(rows) == 0 {
			return nil
		}
		fmt.Fprintln(w, "  "+name)
		err := terminal.Rows(w, "    ", rows)
		fmt.Fprintln(w)
		return err
	}
	arch, _ := r.ModelInfo["general.architecture"].(string)
	model := [][]string{{"architecture", arch}}
	if r.Details.ParameterSize != "" {
		model = append(model, []string{"parameters", r.Details.ParameterSize})
	}
	says, _ := r.ModelInfo["general.description"].(string)
	if says != "" { // axle does not run it
		model = [][]string{{"kind", says}}
	}
	for _, key := range []string{"context length", "embedding length"} {
		if v, ok := r.ModelInfo[arch+"."+strings.ReplaceAll(key, " ", "_")].(float64); ok {
			model = append(model, []string{key, fmt.Sprintf("%.0f", v)})
		}
	}
	if says == "" && r.Details.QuantizationLevel != "" {
		model = append(model, []string{"quantization", r.Details.QuantizationLevel})
	}
	for _, key := range []string{"adapters", "prompts"} {
		if names, _ := r.ModelInfo["axle."+key].(string); names != "" {
			model = append(model, []string{key, names})
		}
	}
	switch with, _ := r.ModelInfo["axle.compared"].(string); with {
	case "known":
		model = append(model, []string{"answers", "as on a healthy card"})
	case "earlier":
		model = append(model, []string{"answers", "as at earlier loads"})
	case "never":
		model = append(model, []string{"answers", "never compared: see /health"})
	}
	if err := section("Model", model); err != nil {
		return err
	}
	var caps, params [][]string
	for _, c := range r.Capabilities {
		caps = append(caps, []string{c.String()})
	}
	for line := range strings.Lines(r.Parameters) {
		if f := strings.Fields(line); len(f) > 0 {
			params = append(params, []string{f[0], strings.Join(f[1:], " ")})
		}
	}
	if err := section("Capabilities", caps); err != nil {
		return err
	}
	if err := section("Parameters", params); err != nil {
		return err
	}
	if verbose {
		var rows [][]string
		for _, k := range slices.Sorted(maps.Keys(r.ModelInfo)) {
			rows = append(rows, []string{k, fmt.Sprint(r.ModelInfo[k])})
		}
		if err := section("Metadata", rows); err != nil {
			return err
		}
	}
	for _, s := range []struct{ name, text string }{{"System", r.System}, {"License", r.License}} {
		var rows [][]string
		for i, line := range strings.Split(strings.TrimSpace(s.text), "\n") {
			if s.text == "" || i == 2 && !verbose {
				break
			}
			rows = append(rows, []string{line})
		}
		if err := section(s.name, rows); err != nil {
			return err
		}
	}
	return nil
}
