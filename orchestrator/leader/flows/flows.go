// Package flows serves flow documents to the page and to callers of the interface (api.Flows): the built-in ones, and the files of
// some folders. Start with [Flows].
//
// A file is opened below its folder with [os.Root], so that neither a name nor a link leads outside. A document is checked by
// package compile, like a document of lattice flow validate. A new text is recorded in the audit log before it is written.
package flows

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/compile"
	"github.com/spritekit/lattice/orchestrator/diagram"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
	"github.com/spritekit/lattice/orchestrator/policy"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Config says which flows are served.
type Config struct {
	Folders []string
	// Sources reads the skills, step rules, templates and schemas with which documents are compiled.
	Sources func() (compile.Sources, error)
}

// Flows serves the flows of some folders.
type Flows struct {
	Config
	Facts interface {
		Record(ctx context.Context, kind audit.Kind, subject, key string, body any) error
	}
	// Policy reads the server's layers of the policy.
	Policy func() ([]policy.Layer, error)
	// Begin starts a run.
	Begin func(ctx context.Context, r api.RunRequest) (api.RunView, error)

	writing sync.Mutex // held while a file is compared and replaced
}

// maxListed bounds the files of a folder that are looked at.
const maxListed = 500

var validName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`) })

// ListFlows lists the flows (api.Flows).
func (s *Flows) ListFlows(context.Context) ([]api.FlowView, error) {
	found := map[string]api.FlowView{}
	for _, name := range manifests.Flows() {
		text, _ := manifests.Flow(name)
		found[name] = api.FlowView{Name: name, Description: describeFlow(text)}
	}
	for _, folder := range slices.Backward(s.Folders) { // the first one that has a name wins
		names, err := ListFolder(folder)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			v := api.FlowView{Name: name, File: filepath.Join(folder, name+".json")}
			if text, err := readFile(folder, name); err != nil {
				v.Problem = exchange.AsFault(err).Fault.Message
			} else {
				v.Description = describeFlow(text)
			}
			found[name] = v
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b api.FlowView) int { return strings.Compare(a.Name, b.Name) }), nil
}

// ListFolder returns the names of the flows in a folder, none if it does not exist.
func ListFolder(folder string) (names []string, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.BadInput("flow_unreadable", "read folder of flows: %v", err).WithHint("correct flows in the settings")
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		if ok && validName().MatchString(name) && !e.IsDir() && len(names) < maxListed {
			names = append(names, name)
		}
	}
	return names, nil
}

// describeFlow returns the description of a document, "" if it has none.
func describeFlow(text []byte) string {
	var doc struct{ Description string }
	_ = json.Unmarshal(text, &doc) // a broken one is told when it is opened
	return doc.Description
}

// readFile reads a flow of a folder.
func readFile(folder, name string) ([]byte, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	file, err := root.Open(name + ".json")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fault.BadInput("flow_unreadable", "%s.json is not a regular file", name)
	}
	text, err := io.ReadAll(io.LimitReader(file, ir.MaxDocumentBytes+1))
	switch {
	case err != nil:
		return nil, fault.BadInput("flow_unreadable", "read flow: %v", err)
	case len(text) > ir.MaxDocumentBytes:
		return nil, fault.BadInput("flow_unreadable", "%s.json has more than %d bytes", name, ir.MaxDocumentBytes)
	case !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0:
		return nil, fault.BadInput("flow_unreadable", "%s.json is not text in UTF-8", name)
	}
	return text, nil
}

// find returns the folder and the text of a flow's file. folder is "" if no folder has one.
func (s *Flows) find(name string) (folder string, text []byte, err error) {
	if !validName().MatchString(name) {
		return "", nil, fault.BadInput("flow_name", "%.100q cannot be the name of a flow", name).WithHint("use at most 100 letters, digits, dots, hyphens and underscores, a letter or digit first")
	}
	for _, folder := range s.Folders {
		text, err := readFile(folder, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil && fault.As(err) == nil: // such as a link that leads outside
			err = fault.BadInput("flow_unreadable", "read flow: %v", err)
		}
		return folder, text, err
	}
	return "", nil, nil
}

// Flow returns a flow (api.Flows).
func (s *Flows) Flow(_ context.Context, name string) (api.FlowDocument, error) {
	folder, text, err := s.find(name)
	if err != nil {
		return api.FlowDocument{}, err
	}
	d := api.FlowDocument{FlowView: api.FlowView{Name: name}}
	if folder != "" {
		d.File = filepath.Join(folder, name+".json")
	} else if builtin, ok := manifests.Flow(name); ok {
		text = builtin
	} else {
		return d, fault.NotFound("flow_not_found", "there is no flow %.100q", name).WithHint("GET %s/flows lists the flows", api.Root)
	}
	d.Description, d.Text, d.Sum = describeFlow(text), string(text), sumOf(text)
	return d, nil
}

func sumOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// CheckFlow checks and draws a document (api.Flows).
func (s *Flows) CheckFlow(_ context.Context, r api.FlowCheck) (api.FlowReport, error) {
	sources, err := s.Sources()
	if err != nil {
		return api.FlowReport{}, err
	}
	server, err := s.Policy()
	if err != nil {
		return api.FlowReport{}, err
	}
	flow, findings := compile.Check([]byte(r.Text), sources, policy.New("", server...).WorldAllowed())
	report := api.FlowReport{OK: flow != nil, Findings: append([]finding.Finding{}, findings...)}
	if flow == nil {
		return report, nil
	}
	report.Repo = slices.Contains(flow.Program.Doc.CtxRequires, "repo")
	report.Inputs = listInputs(flow.Program)
	report.Graph, err = diagram.Of(flow.Program.Doc, flow.Labels()).SVG()
	if errors.Is(err, diagram.ErrTooLarge) {
		report.Graph, err = "", nil
	}
	return report, err
}

// SaveFlow replaces the text of a flow's file, or makes the file in the first folder (api.Flows).
func (s *Flows) SaveFlow(ctx context.Context, name string, r api.FlowSave) (api.FlowDocument, error) {
	if len(r.Text) > ir.MaxDocumentBytes || strings.IndexByte(r.Text, 0) >= 0 {
		return api.FlowDocument{}, fault.BadInput("flow_invalid", "a flow is text of at most %d bytes", ir.MaxDocumentBytes)
	}
	if len(s.Folders) == 0 {
		return api.FlowDocument{}, fault.NotFound("no_flow_folder", "the leader knows no folder of flows").WithHint("set flows in the settings, or make the folder flows where lattice serve starts")
	}
	folder, was, err := s.find(name)
	if err == nil {
		err = checkUnchanged(name, r.Was, folder, was)
	}
	if err != nil || folder != "" && string(was) == r.Text {
		return s.answerSaved(ctx, name, err)
	}
	if folder = cmp.Or(folder, s.Folders[0]); len(was) == 0 {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return api.FlowDocument{}, fmt.Errorf("make folder of flows: %w", err)
		}
	}
	if err := s.Facts.Record(ctx, audit.Flow, "flow:"+name, "", flowEntry{filepath.Join(folder, name+".json"), r.Was, sumOf([]byte(r.Text))}); err != nil {
		return api.FlowDocument{}, err
	}
	return s.answerSaved(ctx, name, s.replaceFile(folder, name, r))
}

// flowEntry is the body of an entry about a flow.
type flowEntry struct {
	File string `json:"file"`
	Was  string `json:"was_sha256,omitempty"`
	Sum  string `json:"sha256"`
}

func (s *Flows) answerSaved(ctx context.Context, name string, err error) (api.FlowDocument, error) {
	if err != nil {
		return api.FlowDocument{}, err
	}
	return s.Flow(ctx, name)
}

// checkUnchanged refuses to replace a text that the caller has not seen.
func checkUnchanged(name, seen, folder string, text []byte) error {
	switch {
	case folder == "" && seen == "" || folder != "" && seen == sumOf(text):
		return nil
	case seen == "":
		return fault.BadInput("file_exists", "there is a flow %s already", name).WithHint("choose another name")
	}
	return fault.Busy("flow_changed", "the file of the flow %s has changed since it was read", name).WithHint("read it again")
}

// replaceFile writes a text next to the file and renames it, unless the file has changed.
func (s *Flows) replaceFile(folder, name string, r api.FlowSave) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return fmt.Errorf("write flow: %w", err)
	}
	defer root.Close()
	s.writing.Lock()
	defer s.writing.Unlock()
	mode, seen := fs.FileMode(0o644), ""
	if text, err := readFile(folder, name); err == nil {
		seen = folder
		if err := checkUnchanged(name, r.Was, seen, text); err != nil {
			return err
		}
		if info, err := root.Stat(name + ".json"); err == nil {
			mode = info.Mode().Perm()
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	} else if err := checkUnchanged(name, r.Was, seen, nil); err != nil {
		return err
	}
	part := "." + name + ".json.part"
	file, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return fmt.Errorf("write flow: %w", err)
	}
	_, err = io.WriteString(file, r.Text)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("write flow: %w", errors.Join(err, root.Remove(part)))
	}
	if err := root.Rename(part, name+".json"); err != nil {
		return fmt.Errorf("write flow: %w", err)
	}
	return nil
}

// RunFlow starts a run of a document (api.Flows).
func (s *Flows) RunFlow(ctx context.Context, name string, r api.FlowRun) (api.RunView, error) {
	if !validName().MatchString(name) {
		return api.RunView{}, fault.BadInput("flow_name", "%.100q cannot be the name of a flow", name)
	}
	sources, err := s.Sources()
	if err != nil {
		return api.RunView{}, err
	}
	text, findings := compile.Lower([]byte(r.Text), sources)
	if text == nil {
		return api.RunView{}, compile.RefuseFlow("flow_invalid", protocol.ExitBadInput, findings)
	}
	return s.Begin(ctx, api.RunRequest{Flow: text, Input: r.Input, Key: r.Key, Detach: true, Options: api.Options{FlowName: name, Repo: r.Repo}})
}

// listInputs returns the inputs of a flow: those of its input schema, and those that it reads otherwise.
func listInputs(p *ir.Program) (inputs []api.FlowInput) {
	var schema struct {
		Properties map[string]struct {
			Type        json.RawMessage   `json:"type"`
			Description string            `json:"description"`
			Enum        []json.RawMessage `json:"enum"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	_ = json.Unmarshal(p.InputSchema(), &schema) // as far as it has this form
	missing := p.MissingInputs(nil)
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		member := schema.Properties[name]
		in := api.FlowInput{Name: name, Description: member.Description, Required: slices.Contains(schema.Required, name) || slices.Contains(missing, name)}
		var one string
		if json.Unmarshal(member.Type, &one) == nil {
			in.Types = []string{one}
		} else {
			_ = json.Unmarshal(member.Type, &in.Types) // none stands for all
		}
		for _, choice := range member.Enum {
			var text string
			if json.Unmarshal(choice, &text) != nil {
				text = string(choice)
			}
			in.Choices = append(in.Choices, text)
		}
		inputs = append(inputs, in)
	}
	for _, name := range missing {
		if _, known := schema.Properties[name]; !known {
			inputs = append(inputs, api.FlowInput{Name: name, Required: true})
		}
	}
	slices.SortStableFunc(inputs, func(a, b api.FlowInput) int { // those that are needed first
		switch {
		case a.Required == b.Required:
			return 0
		case a.Required:
			return -1
		}
		return 1
	})
	return inputs
}
