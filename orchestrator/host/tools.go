package host

import (
	"fmt"
	"net/http"
	"os"
	"slices"
)

// maxTools bounds the paths that one sprite is shown.
const maxTools = 64

// checkTools judges the paths that a request wants a new sprite to see.
func (cf *confiner) checkTools(paths []string) ([]string, error) {
	switch {
	case len(paths) == 0:
		return nil, nil
	case cf.cfg.CheckTool == nil:
		return nil, newError(http.StatusForbidden, "tools_refused", "this host shows sprites no paths that a request names; start it with --tool PATH")
	case len(paths) > maxTools:
		return nil, badRequest(fmt.Sprintf("tools: more than %d paths", maxTools))
	}
	checked := make([]string, 0, len(paths))
	for _, path := range paths {
		clean, err := cf.cfg.CheckTool(path)
		if err != nil {
			return nil, newError(http.StatusBadRequest, "tool_refused", err.Error())
		}
		if !slices.Contains(checked, clean) {
			checked = append(checked, clean)
		}
	}
	return checked, nil
}

// tools lists what a box of rec is shown: with an image only what was asked for, because an image has its own. A toolchain
// that was removed since, or whose path leads elsewhere by now, is no reason to keep a sprite from its work: commands will say
// that they do not find it.
func (cf *confiner) tools(rec spriteRecord) []string {
	var present []string
	own := slices.Concat(cf.cfg.AskedTools, cf.cfg.Tools)
	if rec.Image != "" {
		own = cf.cfg.AskedTools
	}
	for i, path := range slices.Concat(own, rec.Tools) {
		if slices.Contains(present, path) {
			continue
		}
		_, err := os.Stat(path)
		if asked := i >= len(own); err == nil && asked && cf.cfg.CheckTool != nil {
			_, err = cf.cfg.CheckTool(path)
		}
		if err != nil {
			cf.cfg.Log.Warn().Err(err).Str("sprite", rec.Name).Str("tool", path).Msg("leave out a tool")
			continue
		}
		present = append(present, path)
	}
	return present
}
