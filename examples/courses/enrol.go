package main

import (
	"slices"

	"github.com/cccgo/ccc/command"
	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
)

// maxCourses is how many courses a student may take.
const maxCourses = 3

// Student is what the facts about one student add up to.
type Student struct{ Enrolled, Queued []string } // in these courses

// Evolve gives the student after one more fact.
func (s Student) Evolve(e event.Event) Student {
	switch e := e.(type) {
	case StudentEnrolled:
		s.Enrolled = append(s.Enrolled, e.Course)
	case StudentQueued:
		s.Queued = append(s.Queued, e.Course)
	}
	return s
}

// Clone lets the runner keep students between commands.
func (s Student) Clone() Student {
	return Student{slices.Clone(s.Enrolled), slices.Clone(s.Queued)}
}

var (
	students = command.NewModel(events, Student.Evolve)
	places   = command.NewModel(events, func(_ int, e event.Event) int { return e.(StudentQueued).Place })
)

// Enrolment is what enrolling depends on: a course, a student, and the last
// place on the course's waiting list.
type Enrolment struct {
	Course    Course
	Student   Student
	LastPlace int
}

// Enrol gives a student a seat, or a place on the waiting list.
type Enrol struct{ Course, Student string }

func (Enrol) CommandName() string { return "enrol" }

// Context joins three views, each observed on its own, all as of one moment. Two
// students who enrol in two courses never disturb each other.
func (c Enrol) Context() command.View[Enrolment] {
	student := students.History(consistency.Where("studentId", c.Student))
	place := places.Latest(consistency.Where("courseId", c.Course).Type(event.TypeOf[StudentQueued]()))
	both := command.Join(course(c.Course), student, func(c Course, s Student) Enrolment { return Enrolment{Course: c, Student: s} })
	return command.Join(both, place, func(e Enrolment, place int) Enrolment { e.LastPlace = place; return e })
}

// Decide lists the rules in the order in which they refuse.
func (c Enrol) Decide(now Enrolment) ([]event.Event, error) {
	switch {
	case now.Course.Seats == 0:
		return nil, Refused{CourseNotFound}
	case slices.Contains(now.Student.Enrolled, c.Course):
		return nil, Refused{AlreadyEnrolled}
	case slices.Contains(now.Student.Queued, c.Course):
		return nil, Refused{AlreadyQueued}
	case len(now.Student.Enrolled) >= maxCourses:
		return nil, Refused{TooManyCourses}
	case now.Course.Free() > 1:
		return []event.Event{StudentEnrolled(c)}, nil
	case now.Course.Free() == 1:
		return []event.Event{StudentEnrolled(c), CourseFilled{c.Course}}, nil
	case !now.Course.ListOpen:
		return nil, Refused{CourseFull}
	}
	return []event.Event{StudentQueued{c.Course, c.Student, now.LastPlace + 1}}, nil
}
