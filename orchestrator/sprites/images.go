package sprites

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spritekit/lattice/orchestrator/sprites/progress"
)

// Images are the calls about images; see [Client.Images].
type Images struct{ *transport }

// Image is a root filesystem that the embedded host's sprites start from. Remote services have none of these calls; they
// answer 404.
type Image struct {
	Digest       string       `json:"digest"`
	Names        []string     `json:"names,omitempty"`
	Kind         string       `json:"kind"`   // oci | docker-archive | rootfs
	Source       string       `json:"source"` // path on the host's machine that it was imported from
	Architecture string       `json:"architecture,omitempty"`
	ImportedAt   time.Time    `json:"imported_at"`
	Entries      int          `json:"entries"`
	Size         int64        `json:"size"`     // bytes of its files
	LeftOut      ImageLeftOut `json:"left_out"` // entries that were not unpacked
	Config       ImageConfig  `json:"config"`
}

// ImageConfig holds an image's settings for its programs. Sprites take Env except the variables that depend on user and place
// (HOME, USER, TMPDIR …), with PATH behind /skills. WorkingDir and User are only recorded: commands run as the user sprite,
// in /home/sprite or the folder that they name. The image's entry point is not run.
type ImageConfig struct {
	Env        []string          `json:"env,omitempty"`
	WorkingDir string            `json:"working_dir,omitempty"`
	User       string            `json:"user,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
}

// ImageLeftOut counts the entries of an archive that are not in the image.
type ImageLeftOut struct {
	Devices    int `json:"devices,omitempty"`
	Attributes int `json:"attributes,omitempty"`
	Setid      int `json:"setid,omitempty"`
	Owners     int `json:"owners,omitempty"`
}

// ImageImport is the body of POST /v1/images. Ref is an absolute path on the host's machine, or an image that is there.
type ImageImport struct {
	Ref  string `json:"ref"`
	Name string `json:"name,omitempty"`
}

// ImageProgress is one line of the NDJSON stream that an import answers with; the last one is "complete" with the image,
// or "error".
type ImageProgress struct {
	Type   string `json:"type"` // info | error | complete
	Data   string `json:"data,omitempty"`
	Step   string `json:"step,omitempty"` // what Data is about, and how many bytes of it are done
	Done   int64  `json:"done,omitempty"`
	Of     int64  `json:"of,omitempty"`
	Error  string `json:"error,omitempty"`
	Code   string `json:"code,omitempty"`
	Status int    `json:"status,omitempty"` // the HTTP status that the error would have had
	Image  *Image `json:"image,omitempty"`
}

// importTimeout ends an import whose context has no deadline of its own.
const importTimeout = time.Hour

// Import has the embedded host import an image; importing it again finds the same one. It calls report, which may be nil, with
// what the host tells of each step.
func (c Images) Import(ctx context.Context, in ImageImport, report func(ImageProgress)) (Image, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, importTimeout)
		defer cancel()
	}
	img, err := c.importOnce(ctx, in, report)
	return img, describeError(err, "import image %s", in.Ref)
}

func (c Images) importOnce(ctx context.Context, in ImageImport, report func(ImageProgress)) (Image, error) {
	res, err := c.sendOnce(ctx, request{method: http.MethodPost, path: "/v1/images", in: in})
	if err != nil {
		return Image{}, err
	}
	defer res.Body.Close()
	for p, err := range readEvents[ImageProgress](ctx, c.transport, res) {
		switch {
		case err != nil:
			return Image{}, err
		case p.Type == "error":
			return Image{}, &APIError{Status: p.Status, Code: p.Code, Message: p.Error}
		case p.Type == "complete" && p.Image != nil:
			return *p.Image, nil
		case report != nil && p.Data != "":
			report(p)
		}
	}
	return Image{}, progress.ErrCut
}

// List returns the embedded host's images, the newest first.
func (c Images) List(ctx context.Context) ([]Image, error) {
	var out struct {
		Images listOf[Image] `json:"images"`
	}
	err := c.sendRequest(ctx, request{method: http.MethodGet, path: "/v1/images"}, &out)
	if err == nil && !out.Images.told {
		err = fmt.Errorf("the answer has no list of images: %w", errOdd)
	}
	return out.Images.items, describeError(err, "list images")
}

// Get finds an image by name, digest or the first digits of one.
func (c Images) Get(ctx context.Context, ref string) (Image, error) {
	var out Image
	err := c.sendRequest(ctx, request{method: http.MethodGet, path: "/v1/images/" + url.PathEscape(ref)}, &out)
	return out, describeError(err, "get image %s", ref)
}

// Remove removes an image that no sprite uses; else the error is an *APIError with status 409.
func (c Images) Remove(ctx context.Context, ref string) error {
	return describeError(c.sendRequest(ctx, request{method: http.MethodDelete, path: "/v1/images/" + url.PathEscape(ref)}, nil), "remove image %s", ref)
}
