package dashboard

import (
	"cmp"
	"encoding/json"
	"html/template"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
	"github.com/spritekit/lattice/spritekit/fault"
)

// flowPages are the pages of flows: a list, and an editor that checks, draws, saves and runs the document that it shows.
type flowPages struct{ *Dashboard }

func (d flowPages) routes() []pageRoute {
	return []pageRoute{
		{"GET /flows", "GET /flows", d.showFlows},
		{"GET /flows/{id}", "GET /flows/{id}", d.showFlow},
		{"POST /flows/{id}/check", "POST /flows/check", d.checkFlow},
		{"POST /flows/{id}/save", "POST /flows/{id}", d.saveFlow},
		{"POST /flows/{id}/run", "POST /flows/{id}/run", d.runFlow},
	}
}

func (d flowPages) showFlows(v *visit) error {
	list, err := d.leader.ListFlows(v.ctx)
	if err != nil {
		return err
	}
	return d.showPage(v, "flows", frame{Title: "Flows", Nav: "flows", Page: list[:min(len(list), maxListed)]})
}

// flowPage holds the content of the editor.
type flowPage struct {
	api.FlowDocument
	Typed   bool // the text is that of the editor, which has it
	Report  api.FlowReport
	Graph   template.HTML
	Fields  []field
	Folders []string // of repositories with boards, to choose from
}

// maxFindings bounds the findings that the editor shows.
const maxFindings = 50

// Shown returns the first findings, the errors before the warnings.
func (p flowPage) Shown() []finding.Finding {
	found := slices.Clone(p.Report.Findings)
	slices.SortStableFunc(found, func(a, b finding.Finding) int { return cmp.Compare(a.Severity, b.Severity) })
	return found[:min(len(found), maxFindings)]
}

// More returns the number of findings that are not shown.
func (p flowPage) More() int { return max(0, len(p.Report.Findings)-maxFindings) }

// newFlow is the text with which a new flow begins.
const newFlow = `{
  "workflow_version": "1.0",
  "id": "my-flow",
  "nodes": [
    {"id": "note", "type": "fs.write", "in": {"path": "note.txt", "content": "$in.text"}},
    {"id": "read", "type": "fs.read", "in": {"path": "note.txt"}}
  ],
  "edges": [{"from": "note", "to": "read"}]
}
`

func (d flowPages) showFlow(v *visit) error {
	doc := api.FlowDocument{FlowView: api.FlowView{Name: v.PathValue("id")}, Text: newFlow}
	if v.URL.Query().Get("new") == "" {
		var err error
		if doc, err = d.leader.Flow(v.ctx, doc.Name); err != nil {
			return err
		}
	}
	return d.showEditor(v, flowPage{FlowDocument: doc}, doc.Text)
}

// checkFlow answers with the editor's page about the text in the body, without the text.
func (d flowPages) checkFlow(v *visit) error {
	text, err := io.ReadAll(http.MaxBytesReader(v.ResponseWriter, v.Body, ir.MaxDocumentBytes))
	if err != nil {
		return fault.BadInput("flow_invalid", "a flow has at most %d bytes", ir.MaxDocumentBytes)
	}
	return d.showEditor(v, flowPage{FlowDocument: api.FlowDocument{FlowView: api.FlowView{Name: v.PathValue("id")}}, Typed: true}, string(text))
}

func (d flowPages) showEditor(v *visit, p flowPage, text string) (err error) {
	if p.Report, err = d.leader.CheckFlow(v.ctx, api.FlowCheck{Text: text}); err != nil {
		return err
	}
	p.Graph = template.HTML(p.Report.Graph) // package diagram escapes its texts
	for _, in := range p.Report.Inputs {
		p.Fields = append(p.Fields, makeInputField(in))
	}
	if p.Report.Repo {
		boards, err := d.leader.ListBoards(v.ctx)
		if err != nil {
			return err
		}
		for _, b := range boards {
			p.Folders = append(p.Folders, b.Folder)
		}
	}
	return d.showPage(v, "flow", frame{Title: p.Name, Nav: "flows", Page: p})
}

// makeInputField returns the field of a form for an input of a flow.
func makeInputField(in api.FlowInput) field {
	f := field{Name: in.Name, Kind: "lines", Choices: in.Choices, Optional: !in.Required, Note: in.Description}
	types := slices.DeleteFunc(slices.Clone(in.Types), func(t string) bool { return t == "null" })
	switch {
	case len(in.Choices) > 0:
		f.Kind, f.Type = "select", typeAny
	case slices.Equal(types, []string{"boolean"}):
		f.Kind, f.Type, f.Choices = "select", typeAny, []string{"true", "false"}
	case slices.Equal(types, []string{"string"}):
		f.Type = "string"
	case slices.Equal(types, []string{"integer"}), slices.Equal(types, []string{"number"}):
		f.Kind, f.Type = "number", types[0]
	case len(types) == 0 || slices.Contains(types, "string"):
		f.Type = typeAny
	default:
		f.Type = "JSON"
	}
	return f
}

// typeAny is the type of fields that take JSON, and anything else for a text.
const typeAny = "text or JSON"

// readInputs returns the input of a run from a form. Empty fields are left out.
func readInputs(fields []field, value func(name string) string) (json.RawMessage, error) {
	input := map[string]json.RawMessage{}
	for _, f := range fields {
		text := strings.ReplaceAll(value("in."+f.Name), "\r\n", "\n")
		if text == "" {
			continue
		}
		switch f.Type {
		case "string":
			raw, err := json.Marshal(text)
			if err != nil {
				return nil, err
			}
			input[f.Name] = raw
		case typeAny:
			input[f.Name] = readValue(text)
		default:
			if !json.Valid([]byte(text)) {
				return nil, fault.BadInput("bad_input", "the input %s is not JSON", f.Name)
			}
			input[f.Name] = json.RawMessage(text)
		}
	}
	return json.Marshal(input)
}

// readText returns the text of the editor with the line ends of the flow's file, and the flow.
func (d flowPages) readText(v *visit) (text string, of api.FlowDocument, err error) {
	text = v.PostFormValue("text")
	of, err = d.leader.Flow(v.ctx, v.PathValue("id"))
	if p := fault.As(err); p != nil && p.Fault.Code == "flow_not_found" { // a new one
		return strings.ReplaceAll(text, "\r\n", "\n"), api.FlowDocument{}, nil
	}
	return restoreLineEnds(of.Text, text), of, err
}

func (d flowPages) saveFlow(v *visit) error {
	text, of, err := d.readText(v)
	if err != nil {
		return err
	}
	name, save := cmp.Or(v.PostFormValue("as"), v.PathValue("id")), api.FlowSave{Text: text}
	if name == v.PathValue("id") && of.File != "" {
		save.Was = v.PostFormValue("was")
	}
	if _, err := d.leader.SaveFlow(v.ctx, name, save); err != nil {
		return err
	}
	return v.goTo("/flows/" + name)
}

func (d flowPages) runFlow(v *visit) error {
	text, _, err := d.readText(v)
	if err != nil {
		return err
	}
	report, err := d.leader.CheckFlow(v.ctx, api.FlowCheck{Text: text})
	if err != nil {
		return err
	}
	var fields []field
	for _, in := range report.Inputs {
		fields = append(fields, makeInputField(in))
	}
	input, err := readInputs(fields, v.PostFormValue)
	if err != nil {
		return err
	}
	run, err := d.leader.RunFlow(v.ctx, v.PathValue("id"), api.FlowRun{Text: text, Input: input, Repo: strings.TrimSpace(v.PostFormValue("repo")), Key: v.PostFormValue("key")})
	if err != nil {
		return err
	}
	return v.goTo("/runs/" + run.RunID)
}

// restoreLineEnds returns an edited text with the line ends that the old text has: browsers make all of them equal. Lines before and
// behind the change are those of the old text, byte for byte. A line that replaces another one ends as that did, a new one as the first.
func restoreLineEnds(old, edited string) string {
	from, to := splitLines(old), splitLines(edited)
	same := func(a, b textLine) bool { return a.text == b.text && (a.end == "") == (b.end == "") }
	head := 0
	for head < min(len(from), len(to)) && same(from[head], to[head]) {
		head++
	}
	tail := 0
	for tail < min(len(from), len(to))-head && same(from[len(from)-1-tail], to[len(to)-1-tail]) {
		tail++
	}
	first := "\n"
	if len(from) > 0 {
		first = cmp.Or(from[0].end, first)
	}
	var b strings.Builder
	for _, l := range from[:head] {
		b.WriteString(l.text + l.end)
	}
	for i, l := range to[head : len(to)-tail] {
		if l.end != "" && head+i < len(from)-tail {
			l.end = cmp.Or(from[head+i].end, first)
		} else if l.end != "" {
			l.end = first
		}
		b.WriteString(l.text + l.end)
	}
	for _, l := range from[len(from)-tail:] {
		b.WriteString(l.text + l.end)
	}
	return b.String()
}

// textLine is a line and its end: \n, \r\n, \r, or "" for the last one.
type textLine struct{ text, end string }

func splitLines(text string) (lines []textLine) {
	for text != "" {
		at := strings.IndexAny(text, "\r\n")
		if at < 0 {
			return append(lines, textLine{text: text})
		}
		end := text[at : at+1]
		if strings.HasPrefix(text[at:], "\r\n") {
			end = "\r\n"
		}
		lines = append(lines, textLine{text[:at], end})
		text = text[at+len(end):]
	}
	return lines
}
