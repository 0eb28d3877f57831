package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spritekit/lattice/manifests/templates"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// withTemplates puts the user's own prompt templates into a document that names them: what runs is whole, and stays as it
// was when the files change. Documents that are not ExecIR, or have templates of their own, are left alone.
func (d *deps) withTemplates(doc []byte) ([]byte, error) {
	dir := d.expand(d.settings.Templates)
	var head struct {
		Version json.RawMessage `json:"execir_version"`
		Own     json.RawMessage `json:"prompt_templates"`
	}
	if dir == "" || json.Unmarshal(doc, &head) != nil || head.Version == nil || head.Own != nil {
		return doc, nil
	}
	var tree any
	if err := json.Unmarshal(doc, &tree); err != nil {
		return doc, nil // whoever parses it says so
	}
	named := map[string]bool{}
	promptTemplates(tree, named)
	own := map[string]json.RawMessage{}
	for _, id := range slices.Sorted(maps.Keys(named)) {
		if _, ok := templates.Builtin(id); ok || filepath.Base(id) != id {
			continue
		}
		path := filepath.Join(dir, id+".json")
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			_, err = templates.Parse(text)
		}
		if err != nil {
			return nil, api.Refuse(protocol.ExitBadInput, "template_unfit", fmt.Sprintf("%s: %v", path, err), "correct the file")
		}
		own[id] = text
	}
	if len(own) == 0 {
		return doc, nil
	}
	member, err := json.Marshal(own)
	if err != nil {
		return nil, fmt.Errorf("write templates: %w", err)
	}
	before, after, _ := bytes.Cut(doc, []byte("{")) // an object: that was seen above
	return slices.Concat(before, []byte(`{"prompt_templates":`), member, []byte(","), after), nil
}

// promptTemplates collects the ids of the templates that nodes name, wherever they stand.
func promptTemplates(v any, ids map[string]bool) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			promptTemplates(item, ids)
		}
	case map[string]any:
		for name, member := range v {
			if id, ok := member.(string); ok && name == "prompt_template" {
				ids[id] = true
			}
			promptTemplates(member, ids)
		}
	}
}
