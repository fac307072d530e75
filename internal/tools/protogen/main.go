// Command protogen makes the Go code of .proto files, beside them. With -check it writes nothing, and fails where a file
// differs.
//
//	protogen -dir ../.. server/coordpb/coord.proto
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/pluginpb"
)

// plugins are the tools of go.mod that write the code.
var plugins = []string{"protoc-gen-go", "protoc-gen-go-grpc"}

func main() {
	dir := flag.String("dir", ".", "the directory that the files are named in, and import each other from")
	check := flag.Bool("check", false, "fail where a file differs, and write nothing")
	flag.Parse()
	for _, name := range flag.Args() {
		files, err := generate(*dir, name)
		for path, text := range files {
			path = filepath.Join(*dir, path)
			if !*check {
				err = errors.Join(err, os.WriteFile(path, text, 0o644))
			} else if old, rerr := os.ReadFile(path); rerr != nil || !bytes.Equal(old, text) {
				err = errors.Join(err, rerr, fmt.Errorf("%s is not what %s says: run make generate", path, name))
			}
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "protogen:", err)
			os.Exit(1)
		}
	}
	fmt.Printf("protogen: %d files\n", flag.NArg())
}

// generate gives the text of each file that is made of one.
func generate(dir, name string) (map[string][]byte, error) {
	request, err := describe(dir, name)
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	for _, plugin := range plugins {
		cmd := exec.Command("go", "tool", plugin)
		cmd.Stdin, cmd.Stderr = bytes.NewReader(request), os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", plugin, err)
		}
		var answer pluginpb.CodeGeneratorResponse
		if err := proto.Unmarshal(out, &answer); err != nil {
			return nil, fmt.Errorf("%s: %w", plugin, err)
		}
		if answer.Error != nil {
			return nil, fmt.Errorf("%s: %s", plugin, answer.GetError())
		}
		for _, f := range answer.File {
			files[f.GetName()] = []byte(f.GetContent())
		}
	}
	return files, nil
}

// describe is what plugins ask for: the descriptors of a file, and of those that it imports before it.
func describe(dir, name string) ([]byte, error) {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{dir}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	compiled, err := compiler.Compile(context.Background(), name)
	if err != nil {
		return nil, err
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: []string{name}, Parameter: proto.String("paths=source_relative")}
	seen := make(map[string]bool)
	var add func(f protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		request.ProtoFile = append(request.ProtoFile, protodesc.ToFileDescriptorProto(f))
	}
	add(compiled[0])
	return proto.Marshal(request)
}
