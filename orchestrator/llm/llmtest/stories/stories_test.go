package stories

import (
	"os"
	"strings"
	"testing"
)

// What the model says without any chance in it is known from llama2.c, which it was made for.
func TestItTellsTheStoryThatItTellsElsewhere(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("LATTICE_TEST_MODELS")
	if dir == "" {
		dir = "../../../../../models"
	}
	m, err := Load(dir)
	if err != nil {
		t.Skipf("no weights (LATTICE_TEST_MODELS names their folder): %v", err)
	}
	const want = "Once upon a time, there was a little girl named Lily. She loved to play outside in the park. One day, she saw a big, red ball. She wanted to play with it, but it was too high."
	if got := strings.TrimSpace(m.Generate("", 80)); !strings.HasPrefix(got, want) {
		t.Errorf("Generate = %q, want %q", got, want)
	}
	if got := m.Choose("Once upon a time, there was a little", []string{"qzx", "girl named Lily"}); got != 1 {
		t.Errorf("Choose = %d, want 1", got)
	}
}

func TestFilesThatAreNoModel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, data := range map[string]string{"empty": "", "short": "\x01\x00\x00\x00", "huge": strings.Repeat("\xff\xff\xff\x7f", 16), "zeros": strings.Repeat("\x00", 64)} {
		if err := os.WriteFile(dir+"/stories260K.bin", []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir); err == nil {
			t.Errorf("%s: Load took it", name)
		}
	}
}
