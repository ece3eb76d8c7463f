// Empty: the supported functions and types of CUDA are defined already.

#pragma once
