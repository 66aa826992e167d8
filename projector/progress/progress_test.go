package progress

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/projector"
	"github.com/schollz/progressbar/v3"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func at(done int64, phase projector.Phase) projector.Progress {
	return projector.Progress{
		Name: projector.Name{Projector: "sums", Boundary: "default"}, Phase: phase,
		Position: consistency.NewPosition(0, uint64(done)*10), Goal: consistency.NewPosition(0, 3000),
		Done: done, About: 300, Rate: 20, Left: time.Duration(300-done) * time.Second / 20,
	}
}

// A file gets a line per ten seconds, and one for each phase.
func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, err := os.Create(filepath.Join(t.TempDir(), "log"))
		require.NoError(t, err)
		defer f.Close()
		show := To(f)
		for n := range int64(200) {
			show(at(n, projector.Building))
			time.Sleep(200 * time.Millisecond)
		}
		show(at(300, projector.Comparing))
		show(at(300, projector.Switched))
		text, err := os.ReadFile(f.Name())
		require.NoError(t, err)
		require.Equal(t, []string{
			"sums/default: building: position a0 of d3000, 0 of about 300 events, 20/s, about 15s left",
			"sums/default: building: position c500 of d3000, 50 of about 300 events, 20/s, about 13s left",
			"sums/default: building: position d1000 of d3000, 100 of about 300 events, 20/s, about 10s left",
			"sums/default: building: position d1500 of d3000, 150 of about 300 events, 20/s, about 8s left",
			"sums/default: comparing: position d3000 of d3000, 300 of about 300 events",
			"sums/default: switched: position d3000 of d3000, 300 of about 300 events",
		}, strings.Split(strings.TrimSpace(string(text)), "\n"))
	})
}

// Nothing known is nothing said.
func TestLineOfNothing(t *testing.T) {
	require.NotContains(t, line(projector.Progress{Phase: projector.Building}), "/s")
}

func TestBars(t *testing.T) {
	var out bytes.Buffer
	b := &bars{to: &out, new: []progressbar.Option{progressbar.OptionSetWidth(20)}}
	b.show(at(0, projector.Building))
	b.show(at(150, projector.Building))
	require.Contains(t, out.String(), "sums/default: building  49%")
	more := at(400, projector.Building) // "about" is no promise
	b.show(more)
	require.NotContains(t, out.String(), "100%")
	other := at(1, projector.Building)
	other.Name.Projector = "other"
	b.show(other)
	b.show(at(300, projector.Comparing))
	b.show(at(300, projector.Switched))
	require.Contains(t, out.String(), "sums/default: switched 100%")
	require.True(t, strings.HasSuffix(out.String(), "\n"))
}
