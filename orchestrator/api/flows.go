package api

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// Flows lists, checks and saves flow documents: the built-in ones, and the files NAME.json of the folders in the settings. It
// reads and writes no file outside of these folders.
type Flows interface {
	// ListFlows lists flows by their names. A file hides a built-in flow of its name.
	ListFlows(ctx context.Context) ([]FlowView, error)
	Flow(ctx context.Context, name string) (FlowDocument, error)
	// CheckFlow says everything about a document that lattice flow validate says, and draws it.
	CheckFlow(ctx context.Context, r FlowCheck) (FlowReport, error)
	// SaveFlow replaces the text of a flow's file, or makes the file. It changes nothing if the file has changed in between.
	SaveFlow(ctx context.Context, name string, r FlowSave) (FlowDocument, error)
	// RunFlow starts a run of a document under the name of a flow, with the settings of the leader.
	RunFlow(ctx context.Context, name string, r FlowRun) (RunView, error)
}

// FlowView is a flow in a list.
type FlowView struct {
	Name        string `json:"name"`
	File        string `json:"file,omitempty"` // "" for a built-in one
	Description string `json:"description,omitempty"`
	Problem     string `json:"problem,omitempty"` // why the file cannot be read
}

// FlowDocument is the text of a flow.
type FlowDocument struct {
	FlowView
	Text string `json:"text"`
	Sum  string `json:"sha256"` // of the text
}

// FlowCheck is a document to be checked.
type FlowCheck struct {
	Text string `json:"text"`
}

// FlowReport holds the findings about a document, and its graph and inputs if none of them is an error.
type FlowReport struct {
	OK       bool              `json:"ok"`
	Findings []finding.Finding `json:"findings"`
	Graph    string            `json:"graph,omitempty"` // the drawing, an SVG
	Inputs   []FlowInput       `json:"inputs,omitempty"`
	Repo     bool              `json:"repo,omitempty"` // a run needs a repository
}

// FlowInput is an input of a flow.
type FlowInput struct {
	Name        string   `json:"name"`
	Types       []string `json:"types,omitempty"` // of JSON Schema; none stands for all
	Description string   `json:"description,omitempty"`
	Choices     []string `json:"choices,omitempty"`
	Required    bool     `json:"required,omitempty"`
}

// FlowSave is a new text of a flow.
type FlowSave struct {
	Text string `json:"text"`
	// Was is the digest of the text that is replaced, "" for a file that does not exist.
	Was string `json:"was_sha256,omitempty"`
}

// FlowRun starts a run of a document.
type FlowRun struct {
	Text  string          `json:"text"`
	Input json.RawMessage `json:"input,omitempty"`
	Repo  string          `json:"repo,omitempty"` // URL or absolute path
	// Key makes starting twice the same as starting once.
	Key string `json:"key,omitempty"`
}

func flowRoutes(s Flows) []route.Route {
	return []route.Route{
		route.ListAll("/flows", "List the flows.", route.After, func(v FlowView) string { return v.Name }, func(r *http.Request) ([]FlowView, error) { return s.ListFlows(r.Context()) }),
		route.Get("/flows/{id}", "Return the text of a flow.", func(r *http.Request) (FlowDocument, error) { return s.Flow(r.Context(), r.PathValue("id")) }),
		route.Post(route.Operator, "/flows/check", "Check and draw a document.", func(r *http.Request, in FlowCheck) (FlowReport, error) { return s.CheckFlow(r.Context(), in) }),
		route.Post(route.Admin, "/flows/{id}", "Save the text of a flow to its file, unless the file has changed in between.", func(r *http.Request, in FlowSave) (FlowDocument, error) {
			return s.SaveFlow(r.Context(), r.PathValue("id"), in)
		}),
		route.AcceptKey(route.Post(route.Operator, "/flows/{id}/run", "Start a run of a document.", func(r *http.Request, in FlowRun) (RunView, error) {
			in.Key = route.Key(r, in.Key)
			return s.RunFlow(r.Context(), r.PathValue("id"), in)
		})),
	}
}
