package main

import (
	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
)

// Course is what the facts about one course add up to.
type Course struct {
	Seats, Taken int // no seats: there is no such course
	ListOpen     bool
}

// Evolve gives the course after one more fact.
func (c Course) Evolve(e event.Event) Course {
	switch e := e.(type) {
	case CourseOffered:
		c.Seats = e.Seats
	case StudentEnrolled:
		c.Taken++
	case WaitingListOpened:
		c.ListOpen = true
	}
	return c
}

// Free is how many seats are left.
func (c Course) Free() int { return c.Seats - c.Taken }

var courses = command.NewModel(events, Course.Evolve)

// course leaves out who waits: that changes no seat.
func course(id string) command.View[Course] {
	return courses.History(consistency.Where("courseId", id).Type(
		event.TypeOf[CourseOffered](), event.TypeOf[StudentEnrolled](), event.TypeOf[WaitingListOpened]()))
}

// Offer offers a course.
type Offer struct {
	Course string
	Seats  int
}

func (Offer) CommandName() string             { return "offer" }
func (c Offer) Context() command.View[Course] { return course(c.Course) }
func (c Offer) Decide(now Course) ([]event.Event, error) {
	switch {
	case c.Seats < 1:
		return nil, Refused{NoSeats}
	case now.Seats > 0:
		return nil, Refused{CourseExists}
	}
	return []event.Event{CourseOffered(c)}, nil
}
