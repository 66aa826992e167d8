package main

import "github.com/cccgo/ccc/event"

// The facts.
type (
	CourseOffered struct {
		Course string `json:"courseId"`
		Seats  int    `json:"seats"`
	}
	StudentEnrolled struct {
		Course  string `json:"courseId"`
		Student string `json:"studentId"`
	}
	// CourseFilled says that the last seat is taken.
	CourseFilled struct {
		Course string `json:"courseId"`
	}
	WaitingListOpened struct {
		Course string `json:"courseId"`
	}
	// StudentQueued carries the place on the waiting list, so the latest one of
	// a course is all that the next one needs.
	StudentQueued struct {
		Course  string `json:"courseId"`
		Student string `json:"studentId"`
		Place   int    `json:"place"`
	}

	// Refused is a refusal that is recorded: it is an error and an event too.
	Refused struct {
		Code Code `json:"code"`
	}
)

func (CourseOffered) EventType() string     { return "CourseOffered" }
func (StudentEnrolled) EventType() string   { return "StudentEnrolled" }
func (CourseFilled) EventType() string      { return "CourseFilled" }
func (WaitingListOpened) EventType() string { return "WaitingListOpened" }
func (StudentQueued) EventType() string     { return "StudentQueued" }
func (Refused) EventType() string           { return "CommandRefused" }
func (r Refused) Error() string             { return string(r.Code) }

// Code says why a command is refused. Codes are a storage format.
type Code string

const (
	NoSeats         Code = "no_seats"
	CourseExists    Code = "course_exists"
	CourseNotFound  Code = "course_not_found"
	CourseFull      Code = "course_full" // and its waiting list is not open yet
	AlreadyEnrolled Code = "already_enrolled"
	AlreadyQueued   Code = "already_queued"
	TooManyCourses  Code = "too_many_courses"
)

var events = event.NewCodec(event.Of[CourseOffered](), event.Of[StudentEnrolled](), event.Of[CourseFilled](),
	event.Of[WaitingListOpened](), event.Of[StudentQueued](), event.Of[Refused]())
