package readonly

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A program, and all that it starts, can change only the writable paths, and reads the others. This process is not restricted.
func TestStart(t *testing.T) {
	kept, open := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(kept, "file"), []byte("kept"), 0o644); err != nil {
		t.Fatal(err)
	}
	for command, works := range map[string]bool{
		"cat file": true,
		"echo x >" + open + "/new && rm " + open + "/new": true,
		"echo x >/dev/null":           true,
		"echo x >file":                false,
		"echo x >>file":               false,
		"setsid sh -c 'echo x >file'": false,
		"rm file":                     false,
		"mv file other":               false,
		"ln file " + open + "/file":   false,
		"ln -s file link":             false,
		"mkdir folder":                false,
		"mkfifo fifo":                 false,
		"cp file copy":                false,
	} {
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir = kept
		err := Start([]string{open, "/dev/null", "/no/such/path"}, cmd.Start)
		if errors.Is(err, ErrUnavailable) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); (err == nil) != works {
			t.Errorf("%s: %v, want success: %v", command, err, works)
		}
	}
	if text, err := os.ReadFile(filepath.Join(kept, "file")); string(text) != "kept" || err != nil {
		t.Errorf("the file is %q, %v", text, err)
	}
	if err := os.WriteFile(filepath.Join(kept, "file"), nil, 0o644); err != nil {
		t.Error(err)
	}
}
