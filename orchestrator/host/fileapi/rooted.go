package fileapi

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/wire"
)

// maxLinks bounds the symbolic links on the way to a file, as the kernel does.
const maxLinks = 40

// maxPath bounds a name as the kernel does: a longer one could be made from outside, but not used inside.
const maxPath = 4096

// places are the folders of a sprite that file calls reach where there are no namespaces. Everything else belongs to the sandbox's system.
var places = []struct {
	seen     string // inside the sprite
	in       string // inside the tree; "" for the skills
	readOnly bool
}{
	{"/workspace", "workspace", false},
	{"/home/sprite", "home/sprite", false},
	{"/tmp", "tmp", false},
	{"/skills", "", true},
}

// rooted is the tree of a sprite that has no view of its own, where there are no namespaces: the host works on the sprite's
// folders without following links out of them. It implements files.Tree. Names are cleaned absolute paths as the sprite
// sees them.
type rooted struct {
	tree   *os.Root
	own    bool     // /skills lies in the tree
	skills *os.Root // nil when there are none, or own
	uid    int      // owner of new files; -1 to leave it
	gid    int
}

func (a *API) openRooted(rec records.Sprite) (*rooted, error) {
	if why := a.layers.WhyDegraded(rec.Tree); why != "" {
		return nil, wire.Degraded(why)
	}
	root, err := os.OpenRoot(a.layers.TreeDir(rec.Tree))
	if err != nil {
		return nil, err
	}
	skills := a.skills.DirOf(rec)
	f := &rooted{tree: root, own: skills == ""}
	f.uid, f.gid = a.confiner.Owner()
	if skills != "" {
		if f.skills, err = os.OpenRoot(skills); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(err, root.Close())
		}
	}
	return f, nil
}

func (f *rooted) close() {
	f.tree.Close()
	if f.skills != nil {
		f.skills.Close()
	}
}

// located is a file of a sprite: rel in root.
type located struct {
	root     *os.Root
	rel      string
	seen     string // its name in the sprite, links resolved
	readOnly bool
}

// isTop reports that the path is one of the places themselves, which can be listed but not removed.
func (l located) isTop() bool {
	for _, p := range places {
		if l.seen == p.seen {
			return true
		}
	}
	return false
}

// placeOf maps a name to its root without looking at the disk.
func (f *rooted) placeOf(seen string) (located, error) {
	for _, p := range places {
		rest, ok := strings.CutPrefix(seen, p.seen)
		if !ok || rest != "" && rest[0] != '/' {
			continue
		}
		if p.in == "" {
			if f.own {
				return located{f.tree, path.Join("skills", rest), seen, false}, nil
			}
			if f.skills == nil {
				return located{}, fs.ErrNotExist
			}
			return located{f.skills, path.Join(".", rest), seen, true}, nil
		}
		return located{f.tree, path.Join(p.in, rest), seen, p.readOnly}, nil
	}
	return located{}, syscall.EACCES
}

// locateFile finds the file that name refers to, following the sprite's own links (absolute ones mean the sprite's root). With last,
// a link at the end is followed, too. Parts that do not exist are left as they are. A race with the sprite can at worst
// make a later use fail: os.Root follows nothing out of its directory.
func (f *rooted) locateFile(name string, last bool) (located, error) {
	if strings.ContainsRune(name, 0) {
		return located{}, syscall.EINVAL
	}
	if len(name) >= maxPath {
		return located{}, syscall.ENAMETOOLONG
	}
	todo := strings.Split(strings.Trim(path.Clean("/"+name), "/"), "/")
	done := "/"
	for links := 0; len(todo) > 0; {
		next := path.Join(done, todo[0])
		todo = todo[1:]
		at, err := f.placeOf(next)
		if err != nil {
			if len(todo) > 0 && isPrefixOfPlace(next) {
				done = next
				continue
			}
			return located{}, err
		}
		if len(todo) == 0 && !last {
			done = next
			break
		}
		st, err := at.root.Lstat(at.rel)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return located{}, err
		}
		if err != nil || st.Mode()&fs.ModeSymlink == 0 {
			done = next
			continue
		}
		if links++; links > maxLinks {
			return located{}, syscall.ELOOP
		}
		target, err := at.root.Readlink(at.rel)
		if err != nil {
			return located{}, err
		}
		target = filepath.ToSlash(target)
		if !strings.HasPrefix(target, "/") {
			target = path.Join(path.Dir(next), target)
		}
		todo = append(strings.Split(strings.Trim(path.Clean(target), "/"), "/"), todo...)
		done = "/"
	}
	return f.placeOf(done)
}

// isPrefixOfPlace is true for /home, on the way to /home/sprite.
func isPrefixOfPlace(name string) bool {
	for _, p := range places {
		if strings.HasPrefix(p.seen, name+"/") {
			return true
		}
	}
	return false
}

// giveToUser makes the sprite's user the owner.
func (f *rooted) giveToUser(root *os.Root, rel string) error {
	if f.uid < 0 {
		return nil
	}
	return root.Lchown(rel, f.uid, f.gid)
}
