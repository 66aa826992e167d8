package main

import (
	"context"

	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/projector"
	"github.com/cccgo/ccc/projector/sqlitetarget"
)

// seatsTable is the read model.
const seatsTable = `CREATE TABLE seats (course TEXT PRIMARY KEY, seats INTEGER, free INTEGER, waiting INTEGER) STRICT`

// Seats is a row of it: the free seats of a course, and how many students wait
// for one.
type Seats struct {
	Course               string
	Seats, Free, Waiting int
}

func newSeats(store eventstore.Store, model *sqlitetarget.Target) *projector.Projector[*sqlitetarget.Tx] {
	return projector.New(store, model, projector.Config{Name: "seats", Events: events},
		func(_ context.Context, tx *sqlitetarget.Tx, d projector.Delivery) error {
			switch e := d.Event.(type) {
			case CourseOffered:
				return tx.Exec(`INSERT INTO seats VALUES (?1, ?2, ?2, 0)`, e.Course, e.Seats)
			case StudentEnrolled:
				return tx.Exec(`UPDATE seats SET free = free - 1 WHERE course = ?1`, e.Course)
			case StudentQueued:
				return tx.Exec(`UPDATE seats SET waiting = waiting + 1 WHERE course = ?1`, e.Course)
			}
			return nil
		})
}

// readSeats reads all rows, as of one moment.
func readSeats(ctx context.Context, model *sqlitetarget.Target) (all []Seats, err error) {
	err = model.Read(ctx, func(tx *sqlitetarget.Tx) error {
		for row, err := range tx.Query(`SELECT course, seats, free, waiting FROM seats ORDER BY course`) {
			var s Seats
			if err == nil {
				err = row.Scan(&s.Course, &s.Seats, &s.Free, &s.Waiting)
			}
			if err != nil {
				return err
			}
			all = append(all, s)
		}
		return nil
	})
	return all, err
}
