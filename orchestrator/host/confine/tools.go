package confine

import (
	"fmt"
	"net/http"
	"os"
	"slices"

	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/wire"
)

// MaxTools bounds the paths that one sprite is shown.
const MaxTools = 64

// CheckTools judges the paths that a request wants a new sprite to see.
func (cf *Confiner) CheckTools(paths []string) ([]string, error) {
	switch {
	case len(paths) == 0:
		return nil, nil
	case cf.Config.CheckTool == nil:
		return nil, wire.Refuse(http.StatusForbidden, "tools_refused", "this host shows sprites no paths that a request names; start it with --tool PATH")
	case len(paths) > MaxTools:
		return nil, wire.BadRequest(fmt.Sprintf("tools: more than %d paths", MaxTools))
	}
	checked := make([]string, 0, len(paths))
	for _, path := range paths {
		clean, err := cf.Config.CheckTool(path)
		if err != nil {
			return nil, wire.Refuse(http.StatusBadRequest, "tool_refused", err.Error())
		}
		if !slices.Contains(checked, clean) {
			checked = append(checked, clean)
		}
	}
	return checked, nil
}

// Tools lists what a box of rec is shown: with an image only the requested ones, because an image has its own. A toolchain
// that was removed since, or whose path leads elsewhere by now, does not keep a sprite from starting: commands will report
// that they do not find it.
func (cf *Confiner) Tools(rec records.Sprite) []string {
	var present []string
	own := slices.Concat(cf.Config.AskedTools, cf.Config.Tools)
	if rec.Image != "" {
		own = cf.Config.AskedTools
	}
	for i, path := range slices.Concat(own, rec.Tools) {
		if slices.Contains(present, path) {
			continue
		}
		_, err := os.Stat(path)
		if asked := i >= len(own); err == nil && asked && cf.Config.CheckTool != nil {
			_, err = cf.Config.CheckTool(path)
		}
		if err != nil {
			cf.Config.Log.Warn().Err(err).Str("sprite", rec.Name).Str("tool", path).Msg("leave out a tool")
			continue
		}
		present = append(present, path)
	}
	return present
}
