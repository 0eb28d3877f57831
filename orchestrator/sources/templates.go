package sources

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/manifests/templates"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/ladder"
	"github.com/spritekit/lattice/spritekit/fault"
)

// readTemplates reads prompt templates of one's own, by their ids. A run keeps its own copy, which stays the same when files change.
func readTemplates(dirs []string) (map[string]json.RawMessage, error) {
	files, err := readSourceFiles("templates", dirs)
	if err != nil {
		return nil, err
	}
	own := map[string]json.RawMessage{}
	for path, text := range files {
		t, err := templates.Parse(text)
		if err == nil && t.ID != strings.TrimSuffix(filepath.Base(path), ".json") {
			err = fmt.Errorf("its id is %q, which is not the name of the file", t.ID)
		}
		if err != nil {
			return nil, fault.BadInput("template_unfit", "%s: %v", path, err).WithHint("correct the file")
		}
		own[t.ID] = text
	}
	return own, nil
}

// readSchemas reads JSON Schemas of one's own, by the names of their files.
func readSchemas(dirs []string) (map[string]json.RawMessage, error) {
	files, err := readSourceFiles("schemas", dirs)
	if err != nil {
		return nil, err
	}
	own := map[string]json.RawMessage{}
	for path, text := range files {
		_, err := expr.Decode(text)
		if err == nil {
			err = ladder.CheckSchema(text)
		}
		if err != nil {
			return nil, fault.BadInput("schema_unfit", "%s: %v", path, err).WithHint("correct the file")
		}
		own[strings.TrimSuffix(filepath.Base(path), ".json")] = text
	}
	return own, nil
}
