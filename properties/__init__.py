"""The suite: what every MXFP4 GEMM kernel must do, as properties that hold for any kernel on any device.

    pytest --pyargs mxassay.properties --mx-kernel my.py:fn --mx-device emulated
    mxassay check my.py:fn --profile quick

`catalogue` states each property, `strategies` make the inputs, `checks` judge the outputs, and each `test_*.py` is a
chapter. Importing this package loads neither torch nor triton.
"""
