package engine

import (
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// The errors that both engines return.

// NotRepository says that there is no repository (3).
func NotRepository(format string, args ...any) *skill.Error {
	return fault.NotFound("not_a_repository", format, args...).WithHint("clone or init the repository first, and name its top folder")
}

// NotRepositoryURL says that a URL is not a repository, or not one that the caller may read (3).
func NotRepositoryURL(format string, args ...any) *skill.Error {
	return NotRepository(format, args...).WithHint("look at the URL; a repository that only its members may read looks the same")
}

// RefNotFound says that a name or revision names nothing (3).
func RefNotFound(format string, args ...any) *skill.Error {
	return fault.NotFound("ref_not_found", format, args...).WithHint("look at the name; git.branch lists the branches")
}

// NoSuchPath says that a path matches no file that could be staged (3).
func NoSuchPath(format string, args ...any) *skill.Error {
	return fault.NotFound("not_found", format, args...).
		WithHint("git.status shows the files that can be staged; name them relative to the top of the repository")
}

// Ignored says that a path is ignored and Force is not set (1).
func Ignored(format string, args ...any) *skill.Error {
	return fault.Failed("ignored", format, args...).WithHint(`set "force":true to stage ignored files; the runtime's own are never staged`)
}

// NothingToCommit says that the index is as HEAD (1). name is the repository's.
func NothingToCommit(name string) *skill.Error {
	return fault.Failed("nothing_to_commit", "nothing is staged in %s", name).WithHint(`stage files with git.add, or set "all":true`)
}

// HeadMoved says that HEAD is not where the caller expects it (1).
func HeadMoved(head, want string) *skill.Error {
	return fault.Failed("head_moved", "HEAD is at %q, not at %s", head, want).WithHint("look at git.log, and call again with the head that you mean")
}

// Conflict says that conflicts are in the way (1). files may be nil.
func Conflict(files []string, format string, args ...any) *skill.Error {
	e := fault.Failed("conflict", format, args...).WithHint("resolve the conflicts that git.status shows, stage the files with git.add, and go on")
	if len(files) > 0 {
		e = e.WithDetails(map[string]any{"paths": files})
	}
	return e
}

// WouldOverwrite says that edits or untracked files would be lost (1).
func WouldOverwrite(files []string, format string, args ...any) *skill.Error {
	e := fault.Failed("would_overwrite", format, args...).WithHint("commit, stash or move the files that are in the way")
	if len(files) > 0 {
		e = e.WithDetails(map[string]any{"paths": files})
	}
	return e
}

// Exists says that the thing to make exists (1).
func Exists(format string, args ...any) *skill.Error {
	return fault.Failed("exists", format, args...).WithHint(`take another name, or set "force":true`)
}

// NotMerged says that a branch holds commits that nothing else does (1).
func NotMerged(format string, args ...any) *skill.Error {
	return fault.Failed("not_merged", format, args...).WithHint(`set "force":true to give its commits up`)
}

// InUse says that a branch is checked out somewhere (1).
func InUse(format string, args ...any) *skill.Error {
	return fault.Failed("in_use", format, args...).WithHint("check out another branch in that work tree first")
}

// Locked says that another git is at work, or died there (6).
func Locked(format string, args ...any) *skill.Error {
	return fault.Busy("busy", format, args...).WithHint("another git command holds the repository; try again, or remove the lock file of one that died")
}

// Authentication says that a remote wants a credential, or another one (4).
func Authentication(format string, args ...any) *skill.Error {
	e := fault.Failed("authentication", format, args...).WithHint("the remote wants a credential that this call does not have")
	e.Exit = protocol.ExitDenied
	return e
}

// Untrusted says that a remote is not proven to be who it should be: its certificate or host key (7).
func Untrusted(format string, args ...any) *skill.Error {
	return fault.Unsafe("untrusted_host", format, args...).
		WithHint("the remote cannot be authenticated: check its URL; its authority goes into ca_file, its host key into known_hosts of credential")
}

// Unreachable says that a remote cannot be reached or stopped in the middle (5).
func Unreachable(format string, args ...any) *skill.Error {
	return fault.Network("network", format, args...).
		WithHint("try again; if it goes on, look whether the network policy of the sprite lets it reach that host, and at the proxy")
}

// TooMany says that a repository passes a limit of the caller's (9).
func TooMany(format string, args ...any) *skill.Error {
	return fault.Limit("too_large", format, args...).WithHint("raise the limit, or fetch less: depth, single_branch and filter say how")
}
