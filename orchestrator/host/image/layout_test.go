package image

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestChooseManifest checks that names take precedence over prefixes of digests.
func TestChooseManifest(t *testing.T) {
	t.Parallel()
	all := []v1.Descriptor{
		{Digest: v1.Hash{Algorithm: "sha256", Hex: "1" + strings.Repeat("a", 63)}, Annotations: map[string]string{annotationName: "2"}},
		{Digest: v1.Hash{Algorithm: "sha256", Hex: "2" + strings.Repeat("b", 63)}, Annotations: map[string]string{annotationName: "stable"}},
	}
	s := &Store{o: Options{Architecture: "amd64"}}
	for choice, want := range map[string]string{
		"2": "1a", "stable": "2b", "1": "1a", "1aa": "1a", "sha256:1": "1a", "sha256:2b": "2b", all[1].Digest.String(): "2b",
		"": "", "s": "", "sha256": "", "sha256:": "", "sha256:3": "", "3": "", "sha512:1": "",
	} {
		got, err := s.chooseManifest(all, choice)
		if (err == nil) != (want != "") || !strings.HasPrefix(got.Digest.Hex, want) {
			t.Errorf("%q chooses %v, %v, want %q", choice, got.Digest, err, want)
		}
	}
	for _, choice := range []string{"s", "sha256", "sha256:"} {
		if got, err := s.chooseManifest(all[:1], choice); err == nil {
			t.Errorf("%q chooses the only image, %v", choice, got.Digest)
		}
	}
}

// TestSurveyTar checks that the kind of an archive is found if many other names come first.
func TestSurveyTar(t *testing.T) {
	t.Parallel()
	s := &Store{}
	for _, tt := range []struct {
		others int
		last   []string
		want   Kind
	}{
		{3, nil, KindRootfs}, {3, []string{dockerManifest}, KindDocker}, {3, []string{layoutFile, indexFile}, KindOCI},
		{1500, nil, KindRootfs}, {1500, []string{dockerManifest}, KindDocker}, {1500, []string{layoutFile, indexFile}, KindOCI},
		{1500, []string{dockerManifest, "etc/passwd"}, KindRootfs},
	} {
		var items []item
		for i := range tt.others {
			items = append(items, file(fmt.Sprintf("%04d/layer.tar", i), "x"))
		}
		for _, name := range tt.last {
			items = append(items, file(name, "{}"))
		}
		look, err := s.surveyTar(t.Context(), write(t, filepath.Join(t.TempDir(), "a.tar"), pack(t, items...)), func(int64) {})
		if err != nil || look.kind != tt.want {
			t.Errorf("%v behind %d others: %q, %v, want %q", tt.last, tt.others, look.kind, err, tt.want)
		}
	}
}
