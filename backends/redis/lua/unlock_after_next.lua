pcall(tellfirst, ARGV[2])
return 1
