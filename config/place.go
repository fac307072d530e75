package config

import "strconv"

// place is where a value is from: a line of a file, or something outside of it that one
// name says all of, such as a variable of the environment.
type place struct {
	file    string
	line    int
	outside bool
}

func (p place) String() string {
	switch {
	case p.file == "":
		return "default"
	case p.line == 0:
		return p.file
	}
	return p.file + ":" + strconv.Itoa(p.line)
}

// mistake is an error in the value of key there. Outside of files the place says which
// key it is.
func (p place) mistake(key, problem string) error {
	if p.outside {
		key = ""
	}
	return &Error{File: p.file, Line: p.line, Key: key, Problem: problem}
}
