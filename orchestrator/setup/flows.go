package setup

import (
	"os"
	"path/filepath"
)

// Flows returns the folders whose flows are shown: those of the settings, else the folder flows here if there is one.
func (env *Env) Flows() []string {
	if len(env.Settings.Flows) > 0 {
		return env.Paths(env.Settings.Flows)
	}
	folder, err := filepath.Abs("flows")
	if err != nil {
		return nil
	}
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return nil
	}
	return []string{folder}
}
