//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd || windows)

package effecttarget

import (
	"errors"
	"os"
)

func tryLock(*os.File) (bool, error) {
	return false, errors.New("this system has no file locks: use a Keeper of your own")
}

func syncDir(string) error { return nil }
