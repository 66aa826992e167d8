package projector

import (
	"time"

	"github.com/cccgo/ccc/consistency"
)

// Progress is how far a [Rebuild] is with one projector.
type Progress struct {
	Name     Name
	Phase    Phase
	Position consistency.Position // reached
	Goal     consistency.Position // where the live generation was when it was looked at last
	Done     int64                // events, those of an interrupted rebuild that is resumed included
	About    int64                // events in all, as the live generation counts them; never less than Done
	Rate     float64              // events per second of this call; zero: not known yet
	Left     time.Duration        // for this projector, at that rate; zero: nothing, or not known
}

// Phase is what a [Rebuild] is at.
type Phase string

const (
	Building  Phase = "building"
	Comparing Phase = "comparing" // writers to the live model wait
	Switched  Phase = "switched"
	Compared  Phase = "compared" // and kept: see RebuildConfig.CompareOnly
)

// meter measures how far a rebuild is.
type meter struct {
	tell  func(Progress)
	every time.Duration
	told  time.Time
	parts []*part
}

// part is one projector's.
type part struct {
	Progress
	fresh int64         // events of this call
	busy  time.Duration // in which they were done
	since time.Time     // from then on it is not in busy yet
}

func (m *meter) part(name Name) *part {
	for _, p := range m.parts {
		if p.Name == name {
			return p
		}
	}
	p := &part{Progress: Progress{Name: name, Phase: Building}}
	m.parts = append(m.parts, p)
	return p
}

// found says that so many events are done already.
func (m *meter) found(name Name, s State) {
	p := m.part(name)
	p.Position = s.Checkpoint.Position
	p.Done = s.Applied + s.Skipped + int64(s.Parked)
}

// start begins to measure a stretch.
func (m *meter) start(name Name, live State) {
	p := m.part(name)
	p.Phase, p.Goal, p.About, p.since = Building, live.Checkpoint.Position, live.Applied+live.Skipped+int64(live.Parked), time.Now()
}

// add says that so many more are done.
func (m *meter) add(name Name, events int, at consistency.Position) {
	p, now := m.part(name), time.Now()
	p.busy += now.Sub(p.since)
	p.since, p.Position = now, at
	p.Done += int64(events)
	p.fresh += int64(events)
	if now.Sub(m.told) >= m.every {
		m.told = now
		m.tell(p.now())
	}
}

// last tells of each projector.
func (m *meter) last(phase Phase) {
	for _, p := range m.parts {
		p.Phase = phase
		m.tell(p.now())
	}
	m.told = time.Now()
}

func (p *part) now() Progress {
	is := p.Progress
	is.About = max(is.About, is.Done)
	if p.busy > 0 {
		is.Rate = float64(p.fresh) / p.busy.Seconds()
	}
	if is.Rate > 0 {
		const most = 1000 * 24 * time.Hour
		is.Left = time.Duration(min(float64(is.About-is.Done)/is.Rate*float64(time.Second), float64(most)))
	}
	return is
}
